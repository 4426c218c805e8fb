/* SPDX-License-Identifier: MIT */
/* draw(data) builds the page from the JSON object of block.c. A page that follows a running job
 * (data.refresh_s) fetches the same object again and calls draw again: what the reader chose
 * stays. */

function draw(data) {
    painters.length = 0;
    document.getElementById('page').replaceChildren(headOf(data),
        ...(several(data) ? [runButtons(data), runTable(data)] : [tilesOf(data.runs[0])]),
        make('div', {class: 'cards'}, lossChart(data), budgetCard(data),
            data.runs.some(run => run.prediction) ? besideCard(data) : null,
            has(data, 'steps', 'step_s') ? stepChart(data) : null, membersCard(data),
            nodesCard(data), timelineCard(data), plainCharts(data), nodeCharts(data),
            configCard(data)),
        make('footer', {},
            `Drawn by ${data.program} from metrics.jsonl.${
                data.runs.some(crosses) ? " Bytes are those of one node's network interface." : ''}`));
    root.dataset.runs = data.runs.length;
    paint();
    root.dataset.ready = 'yes';
}

/* What the reader opened and where the window stands, kept while the page is built anew. */
function drawAgain(data) {
    const open = [...document.querySelectorAll('details')].map(e => e.open), y = scrollY;
    hideTip();
    draw(data);
    document.querySelectorAll('details').forEach((e, i) => { e.open = open[i]; });
    scrollTo(scrollX, y);
}

/* Asks for the data again and again. <html data-live> says "yes", or "no" while nobody answers. */
async function follow(seconds) {
    const live = make('p', {class: 'live', role: 'status'}), say = (now, text) => {
        root.dataset.live = now;
        live.textContent = text;
    };
    let last = null, failed = '';
    document.body.prepend(live);
    for (;;) {
        await new Promise(wake => { setTimeout(wake, seconds * 1000); });
        try {
            const answer = await fetch('data.json', {cache: 'no-cache'});
            const text = await answer.text();
            if (!answer.ok) throw Error(text);
            if (text !== last) drawAgain(JSON.parse(text));
            last = text;
            failed = '';
            say('yes', `live, read at ${new Date().toLocaleTimeString()}`);
        } catch (e) {
            failed = failed || new Date().toLocaleTimeString();
            say('no', `not live since ${failed}: ${e.message}`);
        }
    }
}

function start() {
    const block = document.getElementById('data');
    if (!block) return;
    readHash();
    addEventListener('hashchange', () => {
        readHash();
        paint();
    });
    let waiting = 0;
    addEventListener('resize', () => {
        clearTimeout(waiting);
        waiting = setTimeout(paint, 40);
    });
    for (const sheet of ['(prefers-color-scheme: dark)', 'print'])
        matchMedia(sheet).addEventListener('change', paint);
    try {
        const data = JSON.parse(block.textContent);
        draw(data);
        if (data.refresh_s > 0) follow(data.refresh_s);
    } catch (e) {
        document.getElementById('page').replaceChildren(
            make('p', {class: 'notice'}, 'The page could not be drawn: ' + e.message));
        throw e;
    }
}

start();
