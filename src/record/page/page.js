/* SPDX-License-Identifier: MIT */
/* draw(data) builds the page from the JSON object of block.c. A page that follows a running job
 * fetches the same object again and calls draw again: what the reader chose stays. */

function draw(data) {
    painters.length = 0;
    document.getElementById('page').replaceChildren(headOf(data),
        ...(several(data) ? [runButtons(data), runTable(data)] : [tilesOf(data.runs[0])]),
        make('div', {class: 'cards'}, lossChart(data), budgetCard(data),
            data.runs.some(run => run.prediction) ? besideCard(data) : null,
            has(data, 'steps', 'step_s') ? stepChart(data) : null, timelineCard(data), plainCharts(data),
            configCard(data)),
        make('footer', {},
            `Drawn by ${data.program} from metrics.jsonl. Bytes are those of one node's network interface.`));
    root.dataset.runs = data.runs.length;
    paint();
    root.dataset.ready = 'yes';
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
        draw(JSON.parse(block.textContent));
    } catch (e) {
        document.getElementById('page').replaceChildren(
            make('p', {class: 'notice'}, 'The page could not be drawn: ' + e.message));
        throw e;
    }
}

start();
