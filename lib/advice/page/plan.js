/* SPDX-License-Identifier: MIT */
/* The plan's page. It computes with the model that weft exported (lib/advice/page.c):
 *
 *     step(method, nodes; rate, latency, batch) =
 *         min over orders of phases of
 *         max over their planes of  per_Bps / rate + latencies L + rest
 *
 * with planes for each of some batches (m: times the batch that was planned with),
 * and draws speed-up and node-hours over the wire's rate and over the number of nodes, both with
 * failures and with what a large batch teaches less (troubles, efficiency: as advise_error.c and
 * advise_predict.c have them). What the reader chose is in the address behind '#': rate (bit/s),
 * latency (s), nodes, batch (m), failures (seconds between two of a node; 0: none), theme, hide. */

const chosen = {rate: 0, latency: 0, nodes: 0, batch: 1, failures: 0, theme: 'auto', hide: new Set()};
let plan = null;

/* ---- the model ---- */

/* The nearest of the batches that there are planes for. */
function batchPlace(batch) {
    const off = plan.batches.map(m => Math.abs(Math.log(m / batch)));
    return off.indexOf(Math.min(...off));
}

/* null: the batch can not be shared. */
const stepOf = (batches, batch, rate_bps, latency) => {
    const orders = batches[batchPlace(batch)];
    const longest = order => order.reduce((most, [perBps, latencies, rest]) => Math.max(
        most, perBps * 8 / rate_bps + latencies * latency + rest), 0);
    return orders.length ? Math.min(...orders.map(longest)) : null;
};

const cellOf = (method, nodes) => method.at.find(a => a.nodes === nodes);

/* Seconds of a step, or null where the batch can not be shared. */
function predict(method, nodes, rate_bps, latency, batch) {
    if (nodes === 1) return stepOf(plan.one, batch, rate_bps, latency);
    const cell = cellOf(method, nodes);
    return cell ? stepOf(cell.planes, batch, rate_bps, latency) : null;
}

/* By how much failures make a run of such steps longer: the others go on without a node, or all go
 * back to the last checkpoint. */
function troubles(method, nodes, step) {
    const {restart_s, save_s, save_every, silence_s} = plan.failures;
    if (!chosen.failures) return 1;
    const often = nodes / chosen.failures, every = save_every * step;
    if (nodes > 1 && cellOf(method, nodes).goes_on)
        return 1 + (every > 0 ? save_s / every : 0) + often * (silence_s + restart_s / nodes);
    const between = every > 0 ? every : Math.sqrt(2 * Math.max(save_s, 1) / often);
    return 1 + save_s / between + often * (between / 2 + restart_s);
}

const batchOf = (nodes, batch) => plan.tokens_per_step * batch * (plan.batch_per_rank ? nodes : 1);

/* Of a token, over one of the batch that one node was planned with. */
const efficiency = (nodes, batch) => plan.critical_batch ?
    (1 + batchOf(1, 1) / plan.critical_batch) / (1 + batchOf(nodes, batch) / plan.critical_batch) : 1;

/* Steps to a loss, over those of one node. */
const stepsOf = (method, nodes) => nodes === 1 ? 1 : cellOf(method, nodes).steps;

/* Seconds for what a token of one node's planned batch teaches, all told; null where there is no step. */
function cost(method, nodes, rate_bps, latency, batch) {
    const step = predict(method, nodes, rate_bps, latency, batch);
    return step === null ? null :
        stepsOf(method, nodes) * step * troubles(method, nodes, step) / batchOf(nodes, batch) / efficiency(nodes, batch);
}

/* Over one node, to the same loss: with a batch of its own each node brings as many tokens. */
function speedup(method, nodes, rate_bps, latency, batch) {
    const mine = cost(method, nodes, rate_bps, latency, batch);
    const alone = cost(null, 1, rate_bps, latency, batch);
    return mine === null || alone === null ? null : alone / mine;
}

/* Hours of all nodes to the goal: what the run costs, at a price per hour and node. */
function nodeHours(method, nodes, rate_bps, latency, batch) {
    const mine = cost(method, nodes, rate_bps, latency, batch);
    return mine === null ? null : plan.tokens * mine / 3600 * nodes;
}

/* ---- the reader's choice ---- */

const planned = () => ({
    rate: plan.wire.bandwidth_Bps * 8,
    latency: Math.max(plan.wire.latency_s, 1e-6),
    nodes: plan.nodes[plan.nodes.length - 1],
    batch: 1,
    failures: plan.failures.between_s
});

function readChoice() {
    const given = new URLSearchParams(location.hash.slice(1)), p = planned();
    const number = (name, low, high) => {
        const x = Number(given.get(name));
        return x >= low && x <= high ? x : p[name];
    };
    chosen.rate = number('rate', 1e5, 1e13);
    chosen.latency = number('latency', 1e-9, 10);
    chosen.failures = given.get('failures') === '0' ? 0 : number('failures', 3600, 1e9);
    chosen.batch = plan.batches[batchPlace(number('batch', 1 / 64, 64))];
    chosen.nodes = plan.nodes.includes(Number(given.get('nodes'))) ? Number(given.get('nodes')) : p.nodes;
    chosen.theme = ['light', 'dark'].includes(given.get('theme')) ? given.get('theme') : 'auto';
    chosen.hide = new Set((given.get('hide') || '').split(',').filter(Boolean).map(Number));
}

function writeChoice() {
    const out = new URLSearchParams(), p = planned();
    for (const name of ['rate', 'latency', 'nodes', 'batch', 'failures'])
        if (chosen[name] !== p[name]) out.set(name, Number(chosen[name].toPrecision(6)));
    if (chosen.theme !== 'auto') out.set('theme', chosen.theme);
    if (chosen.hide.size) out.set('hide', [...chosen.hide].join(','));
    try {
        history.replaceState(null, '', '#' + out);
    } catch (e) { /* some browsers refuse this for files: the page works without it */
    }
}

function repaint() {
    if (chosen.theme === 'auto')
        delete root.dataset.theme;
    else
        root.dataset.theme = chosen.theme;
    paintAll();
}

function choose(next) {
    Object.assign(chosen, next);
    hideTip();
    writeChoice();
    repaint();
}

/* ---- sliders ---- */

const rateText = x => x >= 1e9 ? `${short(x / 1e9)} Gbit/s` : `${short(x / 1e6)} Mbit/s`;
const hoursText = h => short(h, h < 10 ? 'plain' : 'count');
const tidy = text => text.replace(/(\.\d*?)0+(?=\D|$)/, '$1').replace(/\.(?=\D|$)/, '');
const batchText = m =>
    `${short(plan.tokens_per_step * m, 'count')} tokens${plan.batch_per_rank ? ' a node' : ''}`;

/* A slider of n places; value <-> place by the two functions. */
function slider(name, label, n, valueAt, placeOf, text) {
    const out = make('output', {}), input = make('input', {
        type: 'range', min: 0, max: n, step: 1, name, 'aria-label': label,
        oninput: () => choose({[name]: valueAt(Number(input.value))})
    });
    painters.push(() => {
        input.value = placeOf(chosen[name]);
        out.textContent = text(chosen[name]);
        input.setAttribute('aria-valuetext', out.textContent);
    });
    return make('label', {class: 'slider'}, make('span', {}, label, ' ', out), input);
}

/* Places of a logarithm: `each` of them a factor of ten. */
function logSlider(name, label, low, decades, each, text) {
    return slider(name, label, decades * each, i => Number((low * 10 ** (i / each)).toPrecision(3)),
        x => Math.round(Math.log10(x / low) * each), text);
}

const failuresText = s => s ? tidy(short(s, 'time')) : 'none';

/* A node's time between failures, from a year down to an hour; the first place is none. */
const failuresSlider = () => slider('failures', 'a node fails every', 40,
    i => i === 0 ? 0 : Number((3600 * 8760 ** ((40 - i) / 39)).toPrecision(3)),
    s => s === 0 ? 0 : Math.max(1, Math.min(40, Math.round(40 - 39 * Math.log(s / 3600) / Math.log(8760)))),
    failuresText);

function controls() {
    const reset = make('button', {type: 'button', onclick: () => choose(planned())}, 'as planned');
    const box = card('wire', 'What if', 'move a slider: all values are computed again', reset, true);
    box.e.append(make('div', {class: 'sliders'},
        logSlider('rate', 'wire', 1e6, 5, 20, x => tidy(rateText(x))),
        logSlider('latency', 'latency', 1e-6, 6, 10, x => tidy(short(x, 'time'))),
        slider('nodes', 'nodes', plan.nodes.length - 1, i => plan.nodes[i],
            x => plan.nodes.indexOf(x), x => String(x)),
        slider('batch', 'batch', plan.batches.length - 1, i => plan.batches[i], batchPlace, batchText),
        failuresSlider()));
    return box.e;
}

/* ---- charts ---- */

const visible = () => plan.methods.map((m, k) => ({m, k})).filter(({k}) => !chosen.hide.has(k));

/* Methods that follow the seventh have the colours of the first, and are dashed. */
const curveOf = (k, x, y) => ({
    name: `method${k}`, label: plan.methods[k].name, x, y, colour: colourOf(k),
    mark: k >= 7 ? 'dash' : 'line', data: {'data-method': k}
});

const rates = () => Array.from({length: 101}, (_, i) => 1e6 * 10 ** (i / 20));

/* One node alone: the line that a method has to beat. */
const alone = (x, y) => ({name: 'alone', label: 'one node', x, y, colour: 8, mark: 'dash'});

function chartCard(id, title, note, spec) {
    const box = card(id, title, note), place = make('div', {class: 'plot', 'data-chart': id});
    box.e.append(place);
    painters.push(() => drawChart(place, {id, title, ...spec()}));
    return box.e;
}

const overRate = value => {
    const x = rates(), at = (m, r) => value(m, chosen.nodes, r, chosen.latency, chosen.batch);
    return [alone(x, x.map(r => value(null, 1, r, chosen.latency, chosen.batch))),
        ...visible().map(({m, k}) => curveOf(k, x, x.map(r => at(m, r))))];
};

const overNodes = value => {
    const x = [1, ...plan.nodes], at = (m, n) => value(m, n, chosen.rate, chosen.latency, chosen.batch);
    return [alone(x, x.map(() => at(null, 1))),
        ...visible().map(({m, k}) => curveOf(k, x, x.map(n => at(m, n))))];
};

/* One node's own speed-up is 1, whatever brings its tokens. */
const times = (m, n, ...rest) => n === 1 ? 1 : speedup(m, n, ...rest);
const rateAxis = {title: 'wire, bit/s', kind: 'count', log: true};
const nodeAxis = {title: 'nodes', kind: 'count', log: true};

/* Far below what pays nothing is to be seen: there a chart ends, so that the rest has room. */
const LEAST = 1 / 30;

function charts() {
    const faster = () => ({title: 'speed-up', kind: 'times', log: true, least: LEAST});
    const cost = () => ({
        title: 'node-hours to the goal', kind: 'count', log: true,
        most: (nodeHours(null, 1, chosen.rate, chosen.latency, chosen.batch) || Infinity) / LEAST
    });
    const rate = () => ({x: rateAxis, events: [{x: chosen.rate, label: 'the wire'}]});
    const nodes = () => ({x: nodeAxis, events: [{x: chosen.nodes, label: 'the nodes'}]});
    return [
        chartCard('speed-rate', 'Speed-up over the wire', 'over one node',
            () => ({...rate(), y: faster(), curves: overRate(times)})),
        chartCard('speed-nodes', 'Speed-up over the nodes', 'over one node',
            () => ({...nodes(), y: faster(), curves: overNodes(times)})),
        chartCard('cost-rate', 'Cost over the wire', 'hours of all nodes',
            () => ({...rate(), y: cost(), curves: overRate(nodeHours)})),
        chartCard('cost-nodes', 'Cost over the nodes', 'hours of all nodes',
            () => ({...nodes(), y: cost(), curves: overNodes(nodeHours)})),
    ];
}

/* ---- head, legend, table ---- */

function head() {
    const {bandwidth_Bps, latency_s} = plan.wire;
    document.title = `plan · ${plan.model}, ${short(plan.parameters, 'count')} parameters, ${Math.max(...plan.nodes)} nodes, ` +
        `${tidy(rateText(bandwidth_Bps * 8))}, ${tidy(short(latency_s, 'time'))} · weft`;
    const themes = choice('Colours', [['auto', 'auto'], ['light', 'light'], ['dark', 'dark']],
        () => chosen.theme, theme => choose({theme}));
    const words = plan.answer.split('\n\n').map(text => make('p', {}, text));
    return make('header', {class: 'top'}, make('div', {}, make('h1', {}, 'Plan'), words),
        make('div', {class: 'themes'}, themes));
}

const stepsText = (method, nodes) => method.learning === 'same' ? 'same' :
    method.learning === 'not measured' ? 'not known' : short(stepsOf(method, nodes), 'times');

/* The least rate that pays; undefined: none. */
function breakEven(pays) {
    const all = rates();
    const at = all.findIndex(pays);
    let [low, high] = [all[at - 1], all[at]];
    for (let i = 0; low && i < 20; i++) {
        const middle = Math.sqrt(low * high);
        if (pays(middle)) high = middle;
        else low = middle;
    }
    return high;
}

/* The answer in five figures: the plan's choice as planned, and the fastest method where the sliders
 * stand elsewhere (or one node is the choice), with the steps that it needs: what is level by what is
 * known, weft plan decides. */
function tiles() {
    const box = make('section', {class: 'tiles', 'aria-label': 'The answer'});
    const tile = (label, value, note) => make('div', {class: 'card tile'}, make('span', {}, label),
        make('b', {}, value), make('small', {}, note));
    painters.push(() => {
        const c = chosen, at = [c.nodes, c.rate, c.latency, c.batch];
        const there = plan.methods.filter(m => predict(m, ...at) !== null);
        const p = planned(), asPlanned = Object.keys(p).every(name => c[name] === p[name]);
        const picked = asPlanned && plan.methods.find(m => m.choice);
        const fastest = there.reduce((a, b) => a && speedup(a, ...at) >= speedup(b, ...at) ? a : b, null);
        const shown = picked || fastest;
        if (!shown) return box.replaceChildren();
        const bytes = cellOf(shown, c.nodes).bytes, alone = nodeHours(null, 1, ...at.slice(1));
        const from = breakEven(r => times(shown, c.nodes, r, c.latency, c.batch) > 1);
        box.replaceChildren(
            picked || !asPlanned ? tile(picked ? 'take' : 'fastest here', shown.name,
                `on ${c.nodes} nodes, steps: ${stepsText(shown, c.nodes)}`) :
                tile('take', plan.alone ? plan.alone.name : 'one node',
                    `${plan.alone && plan.alone.speedup !== 1 ? `${short(plan.alone.speedup, 'times')} one node; ` : ''}` +
                        `the rest is of ${shown.name} on ${c.nodes}`),
            tile('faster than one node', short(speedup(shown, ...at), 'times'), `${rangeText(shown, at)}, step of ${
                short(predict(shown, ...at), 'time')}`),
            tile('time to the goal', short(nodeHours(shown, ...at) * 3600 / c.nodes, 'time'),
                alone === null ? 'one node: not with this batch' : `one node: ${short(alone * 3600, 'time')}`),
            tile('out of each node', short(bytes, 'bytes'), 'in a step'),
            tile('pays from', from ? tidy(rateText(from)) : 'no wire', 'faster than one node there'));
    });
    return box;
}

/* The plan's own ends, in proportion where a slider has moved. */
const rangeText = (m, at) => m.range.map(f => (f * speedup(m, ...at)).toPrecision(2)).map(Number).join(' to ');

function legend() {
    const buttons = plan.methods.map((m, k) => make('button', {
        type: 'button', class: 'key', 'data-run': k,
        onclick: () => {
            const next = new Set(chosen.hide);
            if (!next.delete(k)) next.add(k);
            choose({hide: next});
        }
    }, keyPicture(curveOf(k, [], [])), m.name));
    painters.push(() => buttons.forEach((b, k) => b.setAttribute('aria-pressed', String(!chosen.hide.has(k)))));
    return make('nav', {class: 'runs', 'aria-label': 'Methods'}, buttons);
}

function table() {
    const box = card('table', 'Methods', '', null, true), body = make('tbody', {});
    const names = ['method', 'step', 'steps', 'speed-up', 'range', 'time', 'node-hours', 'sent per step'];
    painters.push(() => {
        const c = chosen, at = [c.nodes, c.rate, c.latency, c.batch];
        const rows = plan.methods.map(m => ({m, cell: cellOf(m, c.nodes), step: predict(m, ...at)}))
                         .filter(r => r.cell && r.step !== null);
        rows.sort((a, b) => cost(a.m, ...at) - cost(b.m, ...at));
        box.note(`${c.nodes} nodes, ${tidy(rateText(c.rate))}, ${tidy(short(c.latency, 'time'))}`);
        const row = (name, values, attributes) => make('tr', attributes, make('th', {scope: 'row'}, name),
            values.map((v, i) => make('td', {'data-label': names[i + 1]}, v)));
        const hours = nodeHours(null, 1, ...at.slice(1)), alone = predict(null, 1, ...at.slice(1));
        body.replaceChildren(
            ...rows.map(({m, cell, step}) => row(m.name + (m.choice ? ' (as planned: the choice)' : ''), [
                short(step, 'time'), stepsText(m, c.nodes), short(speedup(m, ...at), 'times'), rangeText(m, at),
                short(nodeHours(m, ...at) * 3600 / c.nodes, 'time'), hoursText(nodeHours(m, ...at)),
                short(cell.bytes, 'bytes')
            ], {'data-row': m.name, class: m.choice ? 'chosen' : ''})),
            ...(alone === null ? [] : [row('one node', [short(alone, 'time'), 'same', '1 ×', '–',
                short(hours * 3600, 'time'), hoursText(hours), '–'], {'data-row': 'one node'})]));
    });
    box.e.append(make('div', {class: 'table'}, make('table', {class: 'stack'},
        make('thead', {}, make('tr', {}, names.map(n => make('th', {scope: 'col'}, n)))), body)));
    return box.e;
}

/* What is in time, node-hours and speed-up besides steps. */
function failureWords() {
    const out = make('span', {});
    painters.push(() => {
        const {restart_s, save_s, save_every} = plan.failures;
        const saving = save_every ? `every ${save_every} steps` : 'as often as pays';
        out.textContent = !chosen.failures ? 'Time and node-hours are without failures.' :
            `A node fails every ${failuresText(chosen.failures)}; a restart takes ${short(restart_s, 'time')}, a ` +
            `checkpoint ${short(save_s, 'time')}, ${saving}. Where the others go on, they do.`;
    });
    return out;
}

/* ---- the page ---- */

function build() {
    document.getElementById('page').replaceChildren(head(), tiles(), legend(),
        make('div', {class: 'cards'}, controls(), charts(), table()),
        make('footer', {}, `Drawn by ${plan.program}: ${short(plan.parameters, 'count')} parameters, goal ${
            short(plan.tokens, 'count')} tokens. Steps: to the same loss, over those of one node, by what was ` +
            'measured on a small model; speed-up and hours have them. ', failureWords()));
}

function start() {
    plan = JSON.parse(document.getElementById('data').textContent);
    readChoice();
    build();
    repaint();
    addEventListener('hashchange', () => {
        readChoice();
        repaint();
    });
    let waiting = 0;
    addEventListener('resize', () => {
        clearTimeout(waiting);
        waiting = setTimeout(repaint, 40);
    });
    for (const sheet of ['(prefers-color-scheme: dark)', 'print'])
        matchMedia(sheet).addEventListener('change', repaint);
    root.dataset.ready = 'yes';
}

start();
