/* SPDX-License-Identifier: MIT */
/* Claims about the report's page, tried in a browser by test_report.sh: first about the
 * functions, then about whole pages in frames (page_claims.js). */
'use strict';

/* ---- functions ---- */

function numbers({short, ticks, logTicks, nearest}) {
    const rows = [
        [0, 'count', '0'], [9999, 'count', '9999'], [12500, 'count', '12.5k'], [196608000, 'count', '197M'],
        [2.5e9, 'count', '2.50G'], [3e-4, 'count', '0.0003'], [0, 'count', '0'], [0, 'time', '0 s'], [0.2361, 'time', '236 ms'], [12e-6, 'time', '12 µs'],
        [90, 'time', '90 s'], [600, 'time', '10 min'], [9000, 'time', '2.50 h'], [0, 'bytes', '0 B'],
        [3.1e6, 'bytes', '3.10 MB'], [999, 'bytes', '999 B'], [3.125, 'plain', '3.125'],
        [-0.0001, 'plain', '-0.100 × 10⁻³'], [0.42, 'share', '42 %'], [null, 'time', '–'], [NaN, 'bytes', '–'],
        [Infinity, 'count', '–'], [1e200, 'plain', '–']
    ];
    for (const [value, kind, text] of rows) same(`${value} as ${kind}`, short(value, kind), text);
    same('ticks are round', ticks(0, 9, 5).values, [0, 2, 4, 6, 8]);
    same('ticks have decimals', ticks(2.1, 2.6, 5),
        {values: [2.1, 2.2, 2.3, 2.4, 2.5, 2.6].map(v => Math.round(v * 10) * 0.1), decimals: 1});
    claim('ticks of nothing end', ticks(1, 1, 5).values.length <= 1);
    for (let i = 0; i < 300; i++) {
        const low = Math.sin(i) * 10 ** (i % 30 - 15),
              high = low + Math.abs(Math.cos(i * 3)) * 10 ** (i % 27 - 13), t = ticks(low, high, 5).values;
        if (low + (high - low) / 20 === low) continue;
        claim(`ticks of ${low} to ${high}`,
            t.length >= 2 && t.length <= 12 &&
                t.every(v => v >= low - 1e-6 * (high - low) && v <= high + 1e-6 * (high - low)),
            t);
    }
    same('logarithmic ticks', logTicks(1, 100), [1, 2, 5, 10, 20, 50, 100]);
    claim('logarithmic ticks are few', logTicks(1e-9, 1e15).length <= 12);
    same('the nearest', [nearest([1, 5, 9], 0), nearest([1, 5, 9], 6), nearest([1, 5, 9], 8), nearest([], 1)],
        [0, 1, 2, 0]);
}

function compared(comparedOf) {
    const column = (what, ...values) => comparedOf(values.map(v => ({summary: {v, tokens: 5, wire_total: 1, hidden_share: 0, ...v}})),
        ['', 'v', 'time', Math.min, what]).map(([text, best]) => `${text}${best ? '!' : ''}`);
    const alone = {wire_total: 0, hidden_share: null, v: 1};
    same('the best is what reads differently', column('', 1, 1, 2), ['1 s!', '1 s!', '2 s']);
    same('what reads the same is no best', column('', 1.0001, 1.0002), ['1.00 s', '1.00 s']);
    same('runs of other lengths have no best time', column('whole run', {v: 1, tokens: 4}, {v: 2}), ['1 s', '2 s']);
    same('runs of one length have a best time', column('whole run', {v: 1}, {v: 2}), ['1 s!', '2 s']);
    same('a run of one node has no wire', column('wire', alone, {v: 2}, {v: 3}), ['–', '2 s!', '3 s']);
    same('a run of one rank waits for nobody', column('exchange', alone, {v: 2}), ['–', '2 s']);
}

function views({zoomed, moved, lanesOf, settingsOf, difference, smoothed, subject, unitOf, sentence, barsOf, comparedOf, keysOf, besideOf}) {
    compared(comparedOf);
    same('names of one colour share a key', keysOf([['load', 8], ['wait', 1], ['norm', 8], ['end', 2]]),
        [[1, 'wait'], [2, 'end'], [8, 'load, norm']]);
    const timed = {step_s: 5, compute_s: 3, wait_s: 1, exchange_s: 2};
    const bars = summary => barsOf({runs: [1]}, {run: {summary}})
        .map(bar => [bar.label, ...bar.parts.filter(p => p.value > 0).map(p => `${p.label} ${p.value}`)]);
    same('an exchange is waited for', bars({...timed, hidden_share: 0.5}),
        [['step', 'computing 3', 'exposed wait 1', 'other 1'], ['exchange', 'exchange hidden 1', 'exposed wait 1']]);
    same('where nothing is exchanged, nothing is waited for', bars({...timed, hidden_share: null}),
        [['step', 'computing 3', 'other 2']]);
    const changed = {
        steps: {step: [1, 2, 3, 4, 5, 6], step_s: [0.4, 0.2, 0.3, null, 0.1, 0.2]},
        summary: timed,
        prediction: {step_s: 0.3, median_step_s: 0.3, compute_s: 0.1},
        views: [{name: 'full sync', step: 1}, {name: 'full sync', step: 2, why: 'said'},
                {name: 'diloco H=50', step: 4, why: 'slow', expected: [0.3, 0.12, 2]}]
    };
    same('each form has its prediction', besideOf(changed), [
        ['time of a step (mean), full sync', '300 ms', '300 ms', '0 %'],
        ['time of a step (mean), diloco H=50 from step 4', '120 ms', '150 ms', '+25 %']
    ]);
    same('no bar of a form that was left', barsOf({runs: [1]}, {run: changed}).length, 1);
    same('what is left has evaluations in it', sentence({steps: {step: [20]}, config: 'run:\n  steps: 40\n',
        summary: {steps: 20, elapsed_s: 12, step_s: 0.1, median_step_s: 0.1, pace_s: 0.6}}, true),
        '20 of 40 steps in 12 s, 10 s of it not in steps (evaluation, saving), 12 s left.');
    same('what several runs have in common', subject({config: 'method: a\nmesh:\n  nodes: 2\n'}, {config: 'method: b\nmesh:\n  nodes: 2\n'}),
        '2 nodes');
    same('means have fewer numbers at the ends', smoothed([1, 4, null, 10, 1], 3), [1, 2.5, null, 5.5, 1]);
    same('no mean', smoothed([1, 4, null], 0), [1, 4, null]);
    same('what was trained', subject({config: 'method: ddp\nmodel:\n  kind: gpt2\n  layers: 2\n  width: 64\n# 120576 parameters\n'}),
         'gpt2 2 x 64, 121k parameters, ddp');
    same('what a loss is over', ['gpt2', 't5', 'vit'].map(kind => unitOf({config: `model:\n  kind: ${kind}\n`})),
        ['token', 'target', 'target']);
    same('zooming keeps the time under the pointer', zoomed({from: 0, to: 1}, 1, 0.5, 0.25),
        {from: 0.125, to: 0.625});
    same('zooming out ends at the whole', zoomed({from: 0.4, to: 0.6}, 1, 100, 0.5), {from: 0, to: 1});
    same('moving ends at the border', moved({from: 0.25, to: 0.5}, 1, 5), {from: 0.75, to: 1});
    const lanes = lanesOf(
        [{label: 'm', spans: [['wire', 'a', 0, 0, 2], ['wire', 'b', 0, 1, 3], ['wire', 'c', 0, 2, 4]]}]);
    same('spans that overlap have rows of their own', lanes[0].rows.map(r => r.length), [2, 1]);
    same('settings are flat',
        [
            ...settingsOf(
                'method: x # a note\nmesh:\n  nodes: 2\n  link: "1Gbit # not"\nlist:\n  - a\n  - b\nrun:\n  seed: 1\n')
        ],
        [
            ['method', 'x'], ['mesh.nodes', '2'], ['mesh.link', '"1Gbit # not"'], ['list', 'a, b'],
            ['run.seed', '1']
        ]);
    same('a difference', [difference(0.2, 0.25), difference(1, 1), difference(0, 1), difference(null, 1)],
        ['+25 %', '0 %', '', '']);
}

/* ---- pages ---- */

/* The words at the ticks of a chart's y axis. */
const ticksOf = (p, id) => [...p.page.querySelectorAll(`[data-chart=${id}] text.end`)].map(e => e.textContent);

const ticksOfX = (p, id) => [...p.page.querySelectorAll(`[data-chart=${id}] text.mid`)].map(e => e.textContent);

async function oneRun() {
    const p = await open('one.html', 1200);
    same('one run: curves of the loss', p.count('[data-chart=loss] .curve'), 4);
    same('one run: the time of a step, measured and predicted', p.count('[data-chart=time] .curve'), 2);
    same('one run: bytes out and in', p.count('[data-chart=wire] .curve'), 2);
    same('one run: four bars', p.page.querySelector('[data-chart=budget]').dataset.bars, '4');
    same('one run: points of the validation', p.count('[data-chart=loss] .curve.dots .mark'), 3);
    same('one run: a row for each node',
        [...p.page.querySelectorAll('[data-section=nodes] tbody tr')].map(r => r.textContent), [
            '0, host02–1.500 of 450 %3 GB1 GB300 kB/s–5 kB/s6 kB/s',
            '1, host12–2.500 of 450 %3 GB1 GB300 kB/s–5 kB/s6 kB/s'
        ]);
    same('one run: cores busy, a curve for each node', p.count('[data-chart=cpu] .curve'), 2);
    same('one run: network, a curve for each node', p.count('[data-chart=network] .curve'), 2);
    claim('one run: no tile of what is not known',
        ![...p.page.querySelectorAll('.tile b')].some(e => e.textContent === '–'), p.page.querySelector('.tiles').textContent);
    claim('one run: what is waited for, and what is hidden of it',
        [...p.page.querySelectorAll('.tile')].some(e => /^Waiting\d+ %60 ms of a step; 40 % of the exchange hidden$/.test(e.textContent)),
        p.page.querySelector('.tiles').textContent);
    claim('one run: its words',
        p.page.querySelector('header p').textContent.startsWith('300 steps in 66 s. The validation loss is 3.'),
        p.page.querySelector('header p').textContent);
    claim('one run: predicted beside measured',
        /time of a step \(mean\).*210 ms.*220 ms.*\+5 %/.test(
            p.page.querySelector('[data-section=beside]').textContent));
    claim('one run: against a bigram model',
        /, below the 4\.500 of a bigram model\.$/.test(p.page.querySelector('header p').textContent));
    const whole =
        [...p.page.querySelectorAll('[data-section=loss] button')].find(b => b.textContent === 'whole range');
    claim('one run: the loss is cut off at the top',
        p.page.querySelector('[data-section=loss] small').textContent === 'cut off at the top');
    claim('one run: no tick above the cut', !ticksOf(p, 'loss').includes('7.0'), ticksOf(p, 'loss'));
    whole.click();
    claim('one run: the whole range', ticksOf(p, 'loss').some(t => Number(t) >= 6.5 && Number(t) <= 7),
        ticksOf(p, 'loss'));
    same('one run: the predicted band', p.count('[data-chart=time] .band'), 1);
    const log = p.page.querySelector('[data-section=wire] .choice button');
    log.click();
    claim('one run: a logarithmic axis',
        p.page.querySelector('[data-chart=wire]').textContent.includes('per step, logarithmic'));
    claim('one run: the title', p.page.title === 'one · flexdemo, 2 nodes, 100Mbit · weft', p.page.title);
    const step = p.page.querySelector('[data-chart=loss]').innerHTML;
    for (const x of ['time', 'bytes']) {
        await p.go(`#x=${x}`);
        same(`one run: loss over ${x}`, p.count('[data-chart=loss] .curve'), 4);
        claim(`one run: loss over ${x} is another drawing`,
            p.page.querySelector('[data-chart=loss]').innerHTML !== step);
    }
    const drawn = () => p.page.querySelector('[data-chart=loss]').innerHTML, auto = drawn();
    for (const how of ['none', 'more']) {
        await p.go(`#x=bytes&smooth=${how}`);
        same(`one run: smoothing ${how}`, p.count('[data-chart=loss] .curve'), how === 'none' ? 3 : 4);
        claim(`one run: smoothing ${how} is another drawing`, drawn() !== auto);
    }
    await p.go('#hide=loss.training');
    same('one run: a curve is switched off', p.count('[data-chart=loss] .curve'), 3);
    await p.go('');
    [...p.page.querySelectorAll('[data-section=loss] .legend button')]
        .find(b => b.textContent === 'validation')
        .click();
    same('one run: a click switches a curve off', p.count('[data-chart=loss] .curve.dots'), 0);
    claim('one run: the address knows', p.frame.contentWindow.location.hash === '#hide=loss.validation',
        p.frame.contentWindow.location.hash);
    p.close();
}

async function tips() {
    const p = await open('one.html', 1200), svg = p.page.querySelector('[data-chart=loss] svg'),
          tip = p.page.getElementById('tip');
    const at = svg.getBoundingClientRect(),
          send = (e, type, more) =>
              e.dispatchEvent(new p.frame.contentWindow[more.key ? 'KeyboardEvent' : 'PointerEvent'](
                  type, {bubbles: true, cancelable: true, ...more}));
    send(svg, 'pointermove', {clientX: at.left + at.width / 2, clientY: at.top + 50});
    claim('a tip has the values under the pointer',
        !tip.hidden && /^step 1[0-9][0-9].*training3\.\d+/.test(tip.textContent), tip.textContent);
    send(svg, 'pointerleave', {});
    claim('the tip goes with the pointer', tip.hidden);
    send(svg, 'keydown', {key: 'Home'});
    send(svg, 'keydown', {key: 'ArrowRight'});
    claim('arrow keys read values', !tip.hidden && tip.textContent.startsWith('step 2'), tip.textContent);
    p.close();
}

/* Dragging a box in a chart, and what the chart is saved as. */
async function ranges() {
    const p = await open('one.html', 1200), W = p.frame.contentWindow, svg = () => p.page.querySelector('[data-chart=loss] svg');
    const hash = () => new URLSearchParams(W.location.hash.slice(1)).get('range');
    const drag = async (dx, dy) => {
        const at = svg().getBoundingClientRect();
        for (const [type, k] of [['pointerdown', 0], ['pointermove', 1], ['pointerup', 1]])
            svg().dispatchEvent(new W.PointerEvent(type,
                {clientX: at.left + 300 + k * dx, clientY: at.top + 100 + k * dy, bubbles: true, button: 0}));
        await wait(20);
    };
    await drag(3, 0);
    same('a click chooses no range', hash(), null);
    await drag(300, 10);
    same('dragging along x', hash() && hash().split(':').length, 3);
    const [from, to] = (hash() || '').split(':').slice(1).map(Number);
    claim('it is the part under the pointer', from > 60 && to < 160 && to - from > 50, hash());
    claim('x has the chosen range', ticksOfX(p, 'loss').every(t => Number(t) >= from && Number(t) <= to), ticksOfX(p, 'loss'));
    const all = [...p.page.querySelectorAll('[data-section=loss] .save button')].find(b => b.textContent === 'all');
    claim('a button shows all again', !all.hidden, '');
    all.click();
    same('all again', [hash(), all.hidden], [null, true]);
    await drag(-200, 80);
    same('a high box, of y too', hash() && hash().split(':').length, 5);
    svg().dispatchEvent(new W.MouseEvent('dblclick', {bubbles: true}));
    same('two clicks show all', hash(), null);
    await p.go('#range=loss:100:120:3:3.5');
    claim('the address holds a range', ticksOf(p, 'loss').slice(0, -1).every(t => Number(t) >= 3 && Number(t) <= 3.5), ticksOf(p, 'loss'));
    await p.go('#range=loss:2:1,loss:a:b,x,loss:1:2:3&x=time');
    same('a strange range does nothing', p.facts().errors, '0');
    await p.go('');
    const spec = {id: 'c', title: 'T', x: {title: 'step', kind: 'count'}, y: {title: 'B', kind: 'plain'},
        curves: [{label: 'a "b"', x: [1, 2], y: [0.5, null], low: [0.25, 0], high: [1, 0]}, {label: 'off', off: true, x: [1], y: [1]}]};
    same('CSV', W.csvOf(spec), '"curve","step","B","least","greatest"\r\n' +
        '"a ""b""",1,0.5,0.25,1\r\n"a ""b""",2,,0,0\r\n');
    const picture = await W.pictureOf({...spec, title: 'Loss'}, svg());
    claim('PNG', picture && picture.type === 'image/png' && picture.size > 10000, picture && picture.size);
    p.close();
}

async function timeline() {
    const p = await open('one.html', 1200), place = p.page.querySelector('[data-chart=timeline]'),
          spans = () => Number(place.dataset.spans), all = spans();
    const zoom = () => new URLSearchParams(p.frame.contentWindow.location.hash.slice(1)).get('zoom'),
          W = p.frame.contentWindow;
    claim('timeline: all spans', all === 400, all);
    same('timeline: lanes, measured above predicted',
        [...place.querySelectorAll('.name')].map(e => e.textContent), [
            'computing, measured', 'computing, predicted', 'exchange thread, measured',
            'exchange thread, predicted'
        ]);
    const several = await open('ranks.html', 1200), lanes = several.page.querySelector('[data-chart=timeline]');
    same('timeline: a lane of each rank that wrote', [...lanes.querySelectorAll('.name')].map(e => e.textContent),
        ['computing, rank 0', 'computing, rank 1', 'exchange thread, rank 0', 'exchange thread, rank 1']);
    const data = JSON.parse(several.page.querySelector('script[type="application/json"]').textContent),
          [first, second] = data.runs[0].timelines;
    claim('timeline: ranks have one clock',
        Math.abs(second.spans[0][3] - first.spans[0][3] - 0.02) < 1e-6, [first.spans[0], second.spans[0]]);
    several.close();
    await p.go('#zoom=0.01-0.02');
    claim('timeline: the address zooms', spans() < all / 5 && spans() > 10, spans());
    await p.go('');
    const at = place.getBoundingClientRect();
    place.focus();
    place.dispatchEvent(new W.WheelEvent('wheel', {
        deltaY: -300,
        clientX: at.left + at.width / 2,
        clientY: at.top + 20,
        bubbles: true,
        cancelable: true
    }));
    claim('timeline: the wheel zooms', zoom() !== null && spans() < all, zoom());
    const before = zoom();
    for (const [type, x] of [['pointerdown', 300], ['pointermove', 200], ['pointerup', 200]]) try {
            place.dispatchEvent(new W.PointerEvent(
                type, {pointerId: 1, clientX: at.left + x, clientY: at.top + 20, bubbles: true}));
        } catch (e) { claim('timeline: dragging', false, e.message); }
    claim('timeline: dragging to the left shows what is later',
        Number(zoom().split('-')[0]) > Number(before.split('-')[0]), [before, zoom()]);
    place.dispatchEvent(new W.KeyboardEvent('keydown', {key: '0', bubbles: true, cancelable: true}));
    claim('timeline: 0 shows all', zoom() === null && spans() === all, [zoom(), spans()]);
    p.page.querySelector('[aria-label="zoom in"]').click();
    claim('timeline: a button zooms', zoom() !== null, zoom());
    p.close();
}

/* Two runs of as many steps, one of them of one node. */
async function twoRuns() {
    const p = await open('two_runs.html', 1200);
    same('two runs: the best', [...p.page.querySelectorAll('[data-section=runs] .best')]
        .map(e => `${e.parentNode.rowIndex} ${e.dataset.label}`),
        ['1 validation loss', '1 training loss', '1 tokens/s', '1 time', '1 time of a step', '1 memory']);
    same('two runs: no wire of one node', [...p.page.querySelectorAll('[data-section=runs] [data-label^=wire]')]
        .map(e => e.textContent), ['–', '–', '2 MB', '600 MB']);
    same('two runs: no rates of one node', [...p.page.querySelectorAll('[data-section=nodes] [data-label^=weft]')]
        .slice(0, 2).map(e => e.textContent), ['–', '–']);
    p.close();
    const alone = await open('alone.html', 1200), words = alone.page.getElementById('page').innerText;
    claim('one node: nothing of a wire', !/wire|weft out|sent per step|exchange hidden/i.test(words),
        words.match(/.*(wire|weft out|sent per step|hidden).*/i));
    alone.close();
}

/* Each colour of the timeline's legend once, whatever the number of names. */
async function keysOfTimeline() {
    const p = await open('names.html', 1200);
    const keys = [...p.page.querySelectorAll('[data-section=timeline] .legend .key')];
    const colours = keys.map(e => p.frame.contentWindow.getComputedStyle(e.firstChild).backgroundColor);
    same('the legend of 12 names: colours', [keys.length, new Set(colours).size], [8, 8]);
    same('the legend of 12 names: what shares one', keys[7].textContent, 'what 7, what 8, what 9, what 10, what 11');
    p.close();
}

async function threeRuns() {
    const p = await open('all.html', 1200);
    const curves = i => p.count(`.curve[data-run="${i}"]`), each = [0, 1, 2].map(curves);
    same('three runs: curves of the loss', p.count('[data-chart=loss] .curve'),
        7); /* one bigram model for all */
    claim('three runs: each has curves', each.every(n => n >= 8), each);
    same('three runs: a legend', p.count('.runs .key[aria-pressed=true]'), 3);
    same('three runs: names',
        [...p.page.querySelectorAll('[data-section=runs] tbody th')].map(e => e.textContent),
        ['one', 'two', 'three']);
    same('three runs: bytes are far apart', p.count('[data-section=wire] [aria-pressed=true]:not(.key)'), 1);
    same('three runs: the best is bold',
        [...p.page.querySelectorAll('[data-section=runs] .best[data-label="training loss"]')].map(
            e => e.parentNode.rowIndex),
        [1]);
    same('three runs: no best where all are one', p.count('[data-section=runs] .best[data-label="memory"]'), 0);
    const heads = [...p.page.querySelectorAll('[data-section=runs] thead th')].map(e => e.textContent);
    claim('three runs: no column of what none has', heads.includes('FLOP use') && !heads.includes('participation'), heads);
    same('three runs: the tab', p.page.title, 'one, two, three · 2 nodes · weft');
    same('three runs: curves of nodes have the runs\' legend', p.count('[data-section=cpu] .legend *'), 0);
    claim('three runs: whose step', /^one, step 21,/.test(p.page.querySelector('[data-section=timeline] small').textContent),
        p.page.querySelector('[data-section=timeline] small').textContent);
    claim('three runs: settings differ',
        /2 of 4 settings differ/.test(p.page.querySelector('[data-section=config]').textContent),
        p.page.querySelector('[data-section=config] small').textContent);
    await p.go('#off=1');
    same('three runs: one is switched off', [0, 1, 2].map(i => curves(i) > 0), [true, false, true]);
    same('three runs: its button says so',
        p.page.querySelector('.runs [data-run="1"]').getAttribute('aria-pressed'), 'false');
    p.page.querySelector('.runs [data-run="1"]').click();
    same('three runs: a click brings it back', [0, 1, 2].map(curves), each);
    p.page.querySelector('.runs [data-run="2"]')
        .dispatchEvent(new p.frame.contentWindow.MouseEvent('click', {shiftKey: true, bubbles: true}));
    same(
        'three runs: Shift and click shows one alone', [0, 1, 2].map(i => curves(i) > 0), [false, false, true]);
    await p.go('#off=0,1,2');
    same('three runs: all off', [p.facts().curves, p.facts().errors], ['0', '0']);
    await p.go('#equal=1');
    claim('three runs: the equal ones too',
        [...p.page.querySelectorAll('.settings tbody tr')].filter(r => !r.hidden).length > 2);
    await p.go('');
    same('three runs: only differences',
        [...p.page.querySelectorAll('.settings tbody tr')].filter(r => !r.hidden).length, 2);
    for (const [theme, paper] of [['light', 'rgb(244, 245, 247)'], ['dark', 'rgb(16, 18, 22)']]) {
        await p.go(`#theme=${theme}`);
        same(`three runs: ${theme}`, [p.facts().paper, p.facts().theme], [paper, theme]);
    }
    await p.go('#x=nothing&off=99,x&zoom=a-b&log=,&theme=pink&hide=%3Cb%3E&line=77');
    same('three runs: a strange address does nothing', [p.facts().errors, [0, 1, 2].map(curves).join()],
        ['0', each.join()]);
    p.close();
}

async function phone() {
    for (const file of ['one.html', 'all.html', 'hostiles.html', 'empty.html']) {
        const p = await open(file, 360);
        same(`${file} on a phone`, [p.facts().width, p.facts().overflow, p.page.documentElement.scrollWidth],
            ['360', '0', 360]);
        p.frame.style.width = '800px';
        p.frame.contentWindow.dispatchEvent(
            new p.frame.contentWindow.Event('resize')); /* a hidden frame gets none */
        await wait(100);
        claim(`${file}: a wider window is used`, p.facts().width === '800', p.facts().width);
        p.close();
    }
}

async function strange() {
    for (const [file, words] of [['empty.html', '0 steps.'], ['begun.html', '1 step.'],
             ['evaluated.html', '0 steps. The validation loss is 5.000'], ['lone.html', '20 of 40 steps.'],
             ['nan.html', 'In 20 of them the loss is not a finite number']]) {
        const p = await open(file, 900), text = p.page.querySelector('header p').textContent;
        claim(`${file} says what it is`, text.includes(words), text);
        claim(`${file} has no number that is none`,
            !/NaN|Infinity|undefined|null/.test(p.page.getElementById('page').innerHTML));
        p.close();
    }
    const slow = await open('slow.html', 900);
    same('the time has the last evaluation in it', slow.page.querySelector('header p').textContent.split('.')[0],
        '20 steps in 12 s, 10 s of it not in steps (evaluation, saving)');
    same('what is only rounding has no name', [...slow.page.querySelectorAll('[data-section=budget] .legend span')].map(e => e.textContent),
        ['computing', 'exposed wait', 'exchange hidden']);
    slow.close();
    const begun = await open('begun.html', 900);
    same('a single step is a point', begun.count('[data-chart=loss] .curve .mark'), 1);
    begun.close();
    for (const file of ['hostile.html', 'hostiles.html']) {
        const p = await open(file, 900);
        same(`${file}: nothing of it runs`,
            [typeof window.pwned, p.count('img'), p.count('#page script'), p.count('#page b i')],
            ['undefined', 0, 0, 0]);
        claim(`${file}: its name is text`,
            p.page.body.textContent.includes('<img src=x onerror=top.pwned=1>"\'&'));
        p.close();
    }
    const begin = performance.now(), long = await open('long.html', 1200);
    same('100000 steps: curves of the loss', long.count('[data-chart=loss] .curve'), 4);
    claim('100000 steps: a band from the least to the greatest',
        long.count('[data-chart=loss] .faint .area') === 1 && long.count('[data-chart=time] .area') === 1, '');
    claim('100000 steps: few points',
        long.page.querySelector('[data-chart=loss] .join').getAttribute('d').length < 400000);
    lines.push(`(100000 steps took ${Math.round(performance.now() - begin)} ms of the page's clock)`);
    long.close();
}

claims(async () => {
    const p = await open('one.html', 1200);
    numbers(p.frame.contentWindow);
    views(p.frame.contentWindow);
    p.close();
    for (const part of [oneRun, tips, ranges, timeline, keysOfTimeline, twoRuns, threeRuns, phone, strange]) await part();
});
