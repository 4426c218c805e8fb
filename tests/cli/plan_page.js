/* SPDX-License-Identifier: MIT */
/* Claims about the plan's page, tried in a browser by test_plan_page.sh: what it computes beside
 * the planner's own predictions (points.js), its sliders, themes, widths. */
'use strict';

async function computes() {
    const p = await open('plan.html', 1200), W = p.frame.contentWindow;
    const model = JSON.parse(p.page.getElementById('data').textContent);
    let near = 0, tried = 0;
    for (const point of points) {
        const method = model.methods.find(m => m.name === point.name) || null;
        if (!method && point.name !== 'one node') continue;
        const found = W.predict(method, point.nodes, point.rate, point.latency, point.batch);
        const where = `${point.name} on ${point.nodes} at ${point.rate / 1e6} Mbit/s, ${point.latency} s, x${point.batch}`;
        tried++;
        near += Math.abs(found / point.step - 1) < 0.02;
        claim(`step of ${where}: ${found} s`, Math.abs(found / point.step - 1) < 0.05, point.step);
    }
    claim('enough points', tried >= 30, tried);
    claim('nine of ten points are within 2 %', near >= 0.9 * tried, [near, tried]);
    same('what was planned', p.page.title, p.page.title.replace(/·.*·/, '· gpt2 2 x 64, 119k parameters, 4 nodes, 100 Mbit/s, 1 ms ·'));
    same('four charts', p.page.querySelectorAll('[data-chart] svg').length, 4);
    same('the answer is the terminal\'s', [...p.page.querySelectorAll('header p')].map(e => e.textContent).join('\n\n'), answer);
    claim('what pays nothing has little room',
        Math.min(...[...p.page.querySelectorAll('[data-chart=speed-rate] .end')].map(e => parseFloat(e.textContent)).filter(x => x > 0)) >= 1 / 30);
    same('where the wire and the nodes are', p.count('[data-chart] .event'), 4);
    claim('what pays, between the points of the curves', Math.abs(W.breakEven(r => r > 3e7) / 3e7 - 1) < 1e-5, W.breakEven(r => r > 3e7));
    same('what pays nowhere, and everywhere', [W.breakEven(() => false), W.breakEven(() => true)], [undefined, 1e6]);
    p.close();
}

/* Failures and batches that teach less are in speed-up and hours as weft plan says them. */
async function grieves() {
    const p = await open('grieved.html', 1200), W = p.frame.contentWindow;
    const model = JSON.parse(p.page.getElementById('data').textContent);
    const at = [model.wire.bandwidth_Bps * 8, Math.max(model.wire.latency_s, 1e-6), 1];
    const kinds = new Set();
    for (const row of grieved) {
        const method = model.methods.find(m => m.name === row.name) || null;
        if (row.name !== 'one node' && !(method && method.at.some(a => a.nodes === row.nodes))) continue;
        const speed = W.speedup(method, row.nodes, ...at), hours = W.nodeHours(method, row.nodes, ...at);
        kinds.add(row.nodes > 1 && row.goes_on);
        claim(`speed-up of ${row.name} on ${row.nodes}: ${speed}`, Math.abs(speed / row.speedup - 1) < 0.03, row.speedup);
        claim(`hours of ${row.name} on ${row.nodes}: ${hours}`,
            Math.abs(hours / row.nodes / row.hours - 1) < 0.03, row.hours);
    }
    for (const m of model.methods) {
        const [low, high] = m.range, told = p.page.querySelector(`[data-row="${m.name}"] [data-label=range]`);
        claim(`range of ${m.name}`, grieved.some(r => r.name === m.name && high > low &&
            Math.abs(low * r.speedup / r.low - 1) + Math.abs(high * r.speedup / r.high - 1) < 1e-3), m.range);
        claim(`the table tells it: ${m.name}`, !told || /^[0-9.]+ to [0-9.]+$/.test(told.textContent), told);
    }
    claim('methods that go on and that go back', kinds.size === 2, [...kinds]);
    const before = W.nodeHours(null, 1, ...at), input = p.page.querySelector('input[name=failures]');
    input.value = 0;
    input.dispatchEvent(new W.Event('input', {bubbles: true}));
    claim('no failures take no time', W.nodeHours(null, 1, ...at) < before && /failures=0/.test(W.location.hash),
        W.location.hash);
    same('the foot says it', /are without failures/.test(p.page.querySelector('footer').textContent), true);
    p.close();
    const calm = await open('plan.html', 1200);
    same('none are planned', /are without failures/.test(calm.page.querySelector('footer').textContent), true);
    calm.close();
}

/* What to take is the terminal's choice, also where that is one node. */
async function takes() {
    for (const [page, name] of Object.entries(taken)) {
        const p = await open(page, 1200);
        same(`${page}: what to take`, p.page.querySelector('.tile b').textContent, name);
        p.close();
    }
}

async function slides() {
    const p = await open('plan.html', 1200), W = p.frame.contentWindow;
    const cell = () => p.page.querySelector('[data-row="full sync"] td').textContent;
    const before = cell(), input = p.page.querySelector('input[name=rate]');
    input.value = 0;
    input.dispatchEvent(new W.Event('input', {bubbles: true}));
    claim('a slider changes the table', cell() !== before, cell());
    claim('the address knows', /rate=1000000/.test(W.location.hash), W.location.hash);
    [...p.page.querySelectorAll('button')].find(b => b.textContent === 'as planned').click();
    same('back to what was planned', cell(), before);
    for (const name of ['rate', 'latency', 'nodes', 'batch', 'failures'])
        claim(`a slider has a name: ${name}`, p.page.querySelector(`input[name=${name}]`).getAttribute('aria-label'));
    const curves = p.count('[data-chart=speed-rate] .curve');
    p.page.querySelector('.runs .key').click();
    same('a method is switched off', p.count('[data-chart=speed-rate] .curve'), curves - 1);
    p.close();
}

async function looks() {
    for (const [theme, paper] of [['light', 'rgb(244, 245, 247)'], ['dark', 'rgb(16, 18, 22)']]) {
        const p = await open('plan.html', 360, `#theme=${theme}`);
        same(`${theme}, on a phone`, [p.facts().paper, p.facts().width, p.page.documentElement.scrollWidth],
            [paper, '360', 360]);
        p.close();
    }
    const p = await open('plan.html', 900, '#rate=x&latency=-1&nodes=7&batch=1e9&theme=pink&hide=99,b');
    claim('no number that is none',
        !/NaN|Infinity|undefined|null/.test(p.page.getElementById('page').innerHTML));
    p.close();
}

claims(async () => { for (const part of [computes, takes, grieves, slides, looks]) await part(); });
