/* SPDX-License-Identifier: MIT */
/* The sections of the page: each is a function of the data (the JSON object of block.c) that
 * makes elements and registers a painter, which draws them as the state says. A section that a
 * run has nothing for is not there. */

/* ---- head ---- */

/* What a loss is the mean over: pairs and images have targets (`weft train` says so, too). */
function unitOf(run) {
    return ['t5', 'vit'].includes(settingsOf(run.config || '').get('model.kind')) ? 'target' : 'token';
}

function sentence(run, live) {
    const s = run.summary, all = Number(settingsOf(run.config || '').get('run.steps')),
          left = all - Math.max(0, ...column(run.steps, 'step'));
    const each = drawable(s.pace_s) ? s.pace_s : s.median_step_s, outside = s.elapsed_s - s.steps * s.step_s;
    const parts = [`${s.steps} ${left > 0 ? `of ${all} ` : ''}step${s.steps === 1 && !(left > 0) ? '' : 's'}` +
        (drawable(s.elapsed_s) ? ` in ${short(s.elapsed_s, 'time')}` : '') +
        (outside > 0.1 * s.elapsed_s ? `, ${short(outside, 'time')} of it not in steps (evaluation, saving)` : '') +
        (live && left > 0 && each > 0 ? `, ${short(left * each, 'time')} left` : '')];
    if (drawable(s.validation_loss)) {
        let text = `The validation loss is ${short(s.validation_loss)} nats per ${unitOf(run)}`;
        if (drawable(s.bigram_loss))
            text += `, ${s.validation_loss < s.bigram_loss ? 'below' : 'not yet below'} the ${
                short(s.bigram_loss)} of a bigram model`;
        parts.push(text);
    }
    if (s.steps_without_loss > 0)
        parts.push(`In ${s.steps_without_loss} of them the loss is not a finite number`);
    return parts.join('. ') + '.';
}

/* "llama 6 x 384, 10.8M parameters, flexdemo, 2 nodes, 100Mbit,10ms", as far as the configuration says it;
 * of several runs what all have. */
function subject(...runs) {
    const [first, ...others] = runs.map(partsOf);
    return first.filter(part => part && others.every(o => o.includes(part))).join(', ');
}

function partsOf(run) {
    const key = settingsOf(run.config || ''), nodes = key.get('mesh.nodes'), link = key.get('mesh.link');
    const size = key.has('model.layers') ? ` ${key.get('model.layers')} x ${key.get('model.width')}` : '';
    const count = /^# (\d+) parameters$/m.exec(run.config || '');
    return [key.has('model.kind') ? key.get('model.kind') + size : '',
        count ? `${short(Number(count[1]), 'count')} parameters` : '', key.get('method'),
        nodes ? `${nodes} node${nodes === '1' ? '' : 's'}` : '',
        link && link !== 'none' ? link.replace(/"/g, '') : ''];
}

function headOf(data) {
    const one = data.runs.length === 1, title = one ? data.runs[0].name : `${data.runs.length} runs compared`;
    const what = subject(...data.runs);
    document.title = [one ? title : data.runs.map(run => run.name).join(', '), what, 'weft'].filter(Boolean).join(' · ');
    const words =
        one ? sentence(data.runs[0], data.refresh_s > 0) : 'Switch a run off by its button; Shift and click shows it alone.';
    const themes = choice('Colours', [['auto', 'auto'], ['light', 'light'], ['dark', 'dark']],
        () => state.theme, theme => change({theme}));
    return make('header', {class: 'top'}, make('div', {}, make('h1', {}, title), make('p', {}, words),
            what ? make('p', {class: 'subject'}, what) : null),
        make('div', {class: 'themes'}, themes));
}

/* The legend of the runs. */
function runButtons(data) {
    const all = data.runs.map((run, i) => i);
    const buttons = data.runs.map((run, i) => make('button', {
        type: 'button',
        class: 'key',
        'data-run': i,
        onclick: e => change({off: e.shiftKey ? new Set(all.filter(k => k !== i)) : toggle(state.off, i)})
    },
                                      keyPicture({colour: colourOf(i), mark: 'dots', shape: i}), run.name));
    painters.push(() => buttons.forEach((b, i) => b.setAttribute('aria-pressed', String(!state.off.has(i)))));
    const every = make('button', {type: 'button', onclick: () => change({off: new Set()})}, 'show all');
    painters.push(() => { every.disabled = state.off.size === 0; });
    return make('nav', {class: 'runs', 'aria-label': 'Runs'}, buttons, every);
}

/* ---- headline numbers ---- */

function tilesOf(run) {
    const s = run.summary,
          tile = (label, value, note) => make('div', {class: 'card tile'}, make('span', {}, label),
              make('b', {}, value), make('small', {}, note));
    return make('div', {class: 'tiles'},
        tile('Validation loss', short(s.validation_loss), `best ${short(s.best_validation_loss)}`),
        tile(
            'Training loss', short(s.loss), `mean of the last ${Math.min(50, s.steps)} steps`),
        tile('Tokens', short(s.tokens, 'count'), `${short(s.tokens_per_s, 'count')} per second`),
        tile('Time of a step', short(s.step_s, 'time'), `${short(s.mfu, 'share')} of peak`),
        drawable(s.grad_norm) ? tile('Gradient norm', short(s.grad_norm), 'last step, before clipping') : null,
        crosses(run) ? tile('Wire per step', short(s.wire_bytes_out, 'bytes'), `${short(s.wire_total, 'bytes')} in all`) : null,
        drawable(s.participation) && s.participation < 1 ? tile('Participation', short(s.participation, 'share'), 'ranks whose rows counted')
                            : null,
        drawable(s.suspect_node) ? tile('Suspect', `node ${s.suspect_node}`, 'sent too much again and again') : null,
        drawable(s.hidden_share)
            ? tile('Waiting', short(s.wait_s / s.step_s, 'share'),
                `${short(s.wait_s, 'time')} of a step; ${short(s.hidden_share, 'share')} of the exchange hidden`)
            : null,
        drawable(s.memory_rank_bytes)
            ? tile('Memory of a rank', short(s.memory_rank_bytes, 'bytes'),
                `${short(s.memory_bytes, 'bytes')} the process at most`)
            : tile('Memory of the process', short(s.memory_bytes, 'bytes'), 'at most'));
}

/* Whether a run sent anything to another node, and whether its ranks exchanged anything: of the
 * others nothing is said of that. */
const crosses = run => run.summary.wire_total > 0, exchanges = run => drawable(run.summary.hidden_share);
const applies = {wire: crosses, exchange: exchanges};

/* [head, name in the summary, kind, which value is best, of what it is] */
const comparedColumns = [
    ['validation loss', 'validation_loss', 'plain', Math.min],
    ['training loss', 'loss', 'plain', Math.min],
    ['steps', 'steps', 'count'],
    ['tokens', 'tokens', 'count'],
    ['tokens/s', 'tokens_per_s', 'count', Math.max],
    ['time', 'elapsed_s', 'time', Math.min, 'whole run'],
    ['time of a step', 'step_s', 'time', Math.min],
    ['wire per step', 'wire_bytes_out', 'bytes', Math.min, 'wire'],
    ['wire in all', 'wire_total', 'bytes', Math.min, 'wire'],
    ['wait per step', 'wait_s', 'time', Math.min, 'exchange'],
    ['exchange hidden', 'hidden_share', 'share', Math.max, 'exchange'],
    ['participation', 'participation', 'share', Math.max],
    ['FLOP use', 'mfu', 'share', Math.max],
    ['memory of a rank', 'memory_rank_bytes', 'bytes', Math.min],
    ['memory', 'memory_bytes', 'bytes', Math.min],
];

/* A column of that table as [text, whether it is the best]. Best is what reads differently from
 * another; the time of whole runs is compared where they read as many tokens. */
function comparedOf(runs, [, name, kind, best, what]) {
    const values = runs.map(run => what in applies && !applies[what](run) ? null : run.summary[name]);
    const texts = values.map(v => short(v, kind)), known = values.filter(drawable);
    const fair = what !== 'whole run' || runs.every(run => run.summary.tokens === runs[0].summary.tokens);
    const first = best && fair && known.length > 1 ? short(best(...known), kind) : null;
    const differ = values.some((v, i) => drawable(v) && texts[i] !== first);
    return values.map((v, i) => [texts[i], drawable(v) && differ && texts[i] === first]);
}

function runTable(data) {
    const c = card('runs', 'Runs', 'the best of a column is bold', null, true);
    const columns = comparedColumns.map(column => [column[0], comparedOf(data.runs, column)])
        .filter(([, cells]) => cells.some(([text]) => text !== '–'));
    const rows = data.runs.map(
        (run, i) => make('tr', {},
            make('th', {scope: 'row'},
                make('span', {class: 'key'}, keyPicture({colour: colourOf(i), mark: 'dots', shape: i}),
                    run.name)),
            columns.map(([head, cells]) =>
                make('td', {'data-label': head, class: cells[i][1] ? 'best' : null}, cells[i][0]))));
    painters.push(() => rows.forEach((row, i) => row.classList.toggle('off', state.off.has(i))));
    c.e.append(make('div', {class: 'table'},
        make('table', {class: 'stack'},
            make('thead', {},
                make('tr', {}, make('th', {scope: 'col'}, 'run'),
                    columns.map(([head]) => make('th', {scope: 'col'}, head)))),
            make('tbody', {}, rows))));
    c.e.style.marginBottom = '14px';
    return c.e;
}

/* ---- charts ---- */

/* A card with a chart. `build` makes the chart's curves and axes from the state. */
function chartCard(id, title, build, options = {}) {
    const logs = options.log
        ? pressable('log', () => isLog(id, build()), on => change({log: new Map(state.log).set(id, on)}))
        : null;
    let spec = null;
    const choose = range => {
        const next = new Map(state.range);
        if (range) next.set(id, range);
        else next.delete(id);
        change({range: next});
    };
    const whole = make('button', {type: 'button', onclick: () => choose(null)}, 'all');
    const file = (text, label, made) => make('button', {type: 'button', 'aria-label': label, title: label,
        onclick: async () => save(await made(), `${id}.${text.toLowerCase()}`)}, text);
    const saves = make('div', {class: 'choice save'}, whole,
        file('CSV', `${title}: numbers as CSV`, () => new Blob([csvOf(spec)], {type: 'text/csv'})),
        file('PNG', `${title}: picture`, () => pictureOf(spec, place.querySelector('svg'))));
    const c = card(id, title, '', [options.tools, logs, saves], options.wide);
    const legend = make('div', {class: 'legend'}), place = make('div', {class: 'plot', 'data-chart': id});
    c.e.append(legend, place);
    painters.push(() => {
        spec = build();
        spec.id = id;
        spec.title = title;
        spec.range = state.range.get(id);
        spec.choose = choose;
        whole.hidden = !spec.range;
        spec.y.log = options.log && isLog(id, spec);
        if (spec.y.log) spec.y.zero = false;
        for (const curve of spec.curves) curve.off = state.hide.has(`${id}.${curve.name}`);
        drawLegend(legend, spec);
        c.note(spec.note || '');
        drawChart(place, spec);
        for (const b of saves.querySelectorAll('[aria-label]')) b.disabled = !place.querySelector('svg');
    });
    return c.e;
}

const farApart = (values, factor) => {
    const list = values.filter(v => v > 0);
    return list.length > 1 && Math.max(...list) > factor * Math.min(...list);
};

/* Logarithmic if the reader says so, and otherwise if the curves are far apart. */
function isLog(id, spec) {
    if (state.log.has(id)) return state.log.get(id);
    return farApart(spec.curves.map(c => c.y.reduce((most, v) => (drawable(v) && v > most ? v : most), 0)), 50);
}

/* One entry for each name, whichever run it belongs to. */
function drawLegend(legend, spec) {
    const names = [...new Set(spec.curves.map(c => c.name))];
    const multi = spec.curves.some(c => c.data && c.data['data-run'] > 0);
    if (names.length < 2 && !(spec.bands || []).length) names.length = 0;
    legend.replaceChildren(...names.map(name => {
        const curve = spec.curves.find(c => c.name === name), id = `${spec.id}.${name}`;
        return make('button', {
            type: 'button',
            class: 'key',
            'aria-pressed': String(!state.hide.has(id)),
            onclick: () => change({hide: toggle(state.hide, id)})
        },
            keyPicture({...curve, colour: multi ? 8 : curve.colour}), curve.legend || name);
    }),
        ...(spec.bands || [])
            .filter(b => drawable(b.low))
            .map(b => make(
                     'span', {class: 'key'}, make('i', {colour: b.colour, style: 'opacity:.3'}), b.label)));
}

/* A curve of one run: [data, run and its index] and what is particular to it. */
function curveOf(data, {run, i}, table, x, y, rest) {
    const label = several(data) ? `${run.name}${rest.name ? ', ' + rest.name : ''}` : rest.name || '';
    return {
        label,
        x: column(run[table], x),
        y: column(run[table], y),
        low: (run[table].low || {})[y],
        high: (run[table].high || {})[y],
        shape: i,
        data: {'data-run': i},
        ...rest,
        colour: several(data) ? colourOf(i) : rest.colour
    };
}

const axes = {
    step: {title: 'step', kind: 'count', column: 'step'},
    time: {title: 'time', kind: 'time', column: 'elapsed_s'},
    bytes: {title: 'sent', kind: 'bytes', column: 'wire_total'},
};

/* The loss below which all curves stay after the first twelfth: a chart may be cut there.
 * Infinity where cutting would win little. */
function cutOf(runs) {
    let top = -Infinity, least = Infinity, most = -Infinity;
    for (const {run} of runs) {
        const s = run.steps, e = run.evaluations, smooth = column(s, 'smooth_loss'), n = smooth.length;
        const from = run.summary.steps < 100 ? 0 : Math.floor(n / 12), first = column(s, 'step')[from];
        const late = column(e, 'validation_loss').filter((v, i) => !(column(e, 'step')[i] < first));
        for (const v of [...column(s, 'loss'), ...((s.high || {}).loss || []), ...column(e, 'validation_loss')])
            if (drawable(v)) top = Math.max(top, v);
        for (const v of smooth)
            if (drawable(v)) least = Math.min(least, v);
        for (const v of [...smooth.slice(from), ...late, run.summary.bigram_loss])
            if (drawable(v)) most = Math.max(most, v);
    }
    return top - least > 1.5 * (most - least) ? most : Infinity;
}

/* Means over `width` numbers, fewer at both ends; what is not a number counts in none. */
function smoothed(values, width) {
    const sums = [0], counts = [0], half = width >> 1;
    for (const v of values) {
        sums.push(sums[sums.length - 1] + (drawable(v) ? v : 0));
        counts.push(counts[counts.length - 1] + drawable(v));
    }
    return values.map((v, i) => {
        const h = Math.min(half, i, values.length - 1 - i), n = counts[i + h + 1] - counts[i - h];
        return drawable(v) ? (sums[i + h + 1] - sums[i - h]) / n : null;
    });
}

/* [in the address, on the button, which part of a curve a mean is over]; null: as the run's record has it. */
const smoothings = [['none', 'each step', 0], ['', 'smooth', null], ['more', 'smoother', 1 / 12]];

function lossCurves(data, axis) {
    const curves = [], x = axis.column, multi = several(data), runs = shown(data);
    for (const one of runs) {
        const {run} = one, dots = column(run.evaluations, 'validation_loss').filter(drawable).length,
              each = column(run.steps, 'loss'), part = smoothings.find(([name]) => name === state.smooth)[2],
              smooth = part === null ? run.smoothing > 1 : part > 0;
        if (!multi && smooth)
            curves.push(curveOf(
                data, one, 'steps', x, 'loss', {name: 'each step', colour: 1, mark: 'faint', silent: true}));
        curves.push(curveOf(data, one, 'steps', x, 'smooth_loss', {
            name: 'training',
            colour: 1,
            mark: multi && dots >= 2 ? 'thin' : 'line',
            ...part === null ? {} : {y: smoothed(each, part * each.length), low: undefined, high: undefined}
        }));
    }
    const ends = rangeOf(runs.map(({run}) => column(run.steps, x).filter(drawable)), []) || [],
          levels = new Set();
    for (const {run, i} of runs) {
        const level = run.summary.bigram_loss;
        if (!drawable(level) || levels.has(level)) continue;
        levels.add(level);
        curves.push({
            name: 'bigram model',
            label: 'bigram model',
            x: ends,
            y: [level, level],
            colour: 8,
            mark: 'dash',
            data: {'data-run': i}
        });
    }
    for (const one of runs)
        if (column(one.run.evaluations, 'validation_loss').some(drawable))
            curves.push(curveOf(
                data, one, 'evaluations', x, 'validation_loss', {name: 'validation', colour: 2, mark: 'dots'}));
    return curves;
}

/* Words for who left and who came. */
function changeWords(view) {
    const names = list => list.map(([place, host]) => `rank ${place} on ${host}`).join(', ');
    return [
        view.begins ? 'resumed' : '', view.lost.length ? `lost ${names(view.lost)}` : '',
        view.joined.length ? `came: ${names(view.joined)}` : '', view.why ? view.name || 'other shares' : ''
    ].filter(Boolean).join('; ');
}

/* Where who takes part changed, on an axis that is a column of the steps. */
function eventsOf(data, field) {
    return shown(data).flatMap(({run}) => (run.views || []).slice(1).map(view => {
        const steps = column(run.steps, 'step'), k = nearest(steps, view.step);
        return {
            x: field === 'step' ? view.step : column(run.steps, field)[k],
            label: `step ${view.step}: ${changeWords(view)}`
        };
    }));
}

function lossChart(data) {
    const options = [['step', 'steps'], ['time', 'time'], ['bytes', 'bytes']].filter(
        ([v]) => v !== 'bytes' || data.runs.some(r => r.summary.wire_total > 0));
    const whole = pressable('whole range', () => state.whole, on => change({whole: on}));
    const totals = () => shown(data).map(({run}) => run.summary.wire_total);
    const isLogX = () =>
        state.log.has('loss') ? state.log.get('loss') : several(data) && farApart(totals(), 10);
    const log = pressable('log', isLogX, on => change({log: new Map(state.log).set('loss', on)}));
    const unzoomed = () => new Map([...state.range].filter(([id]) => id !== 'loss'));
    const tools = [choice('Over', options, () => state.x, x => change({x, range: unzoomed()})),
        choice('Smoothing', smoothings, () => state.smooth, smooth => change({smooth})), log, whole];
    return chartCard('loss', 'Loss', () => {
        const axis = axes[options.some(([v]) => v === state.x) ? state.x : 'step'], cut = cutOf(shown(data));
        log.hidden = axis !== axes.bytes;
        whole.hidden = cut === Infinity;
        return {
            note: cut < Infinity && !state.whole ? 'cut off at the top' : '',
            height: innerWidth < 560 ? 290 : 360,
            x: {...axis, log: axis === axes.bytes && isLogX()},
            y: {title: `nats per ${[...new Set(shown(data).map(({run}) => unitOf(run)))].join(' or ')}`, kind: 'plain', most: state.whole ? Infinity : cut},
            events: eventsOf(data, axis.column),
            curves: lossCurves(data, axis)
        };
    }, {wide: true, tools});
}

/* A curve without its gaps: for what is not measured in every step. */
function joined(curve) {
    const keep = curve.y.map(drawable), kept = list => list && list.filter((v, i) => keep[i]);
    return {...curve, x: kept(curve.x), y: kept(curve.y), low: kept(curve.low), high: kept(curve.high)};
}

/* One or more columns over the steps. `columns`: [name in the legend, column, colour, mark,
 * table]. */
function columnChart(data, id, title, y, columns, options = {}) {
    return chartCard(id, title, () => {
        const curves =
            shown(data)
                .flatMap(one => columns
                                    .map(([name, field, colour, mark, table]) =>
                                             curveOf(data, one, table || 'steps', 'step', field, {
                                                 name: name || id,
                                                 label: several(data)
                                                     ? `${one.run.name}${columns.length > 1 ? ', ' + name : ''}`
                                                     : name || title,
                                                 colour,
                                                 mark
                                             }))
                                    .filter(c => c.y.some(drawable))
                                    .map(joined))
                .concat(options.more ? options.more() : []);
        const all = curves.flatMap(c => [...c.y, ...c.high || []]).filter(drawable),
              most = options.most ? options.most(curves) : Infinity;
        const isCut = !state.whole && all.some(v => v > most), bands = options.bands ? options.bands() : [];
        return {
            note: [options.note, isCut ? 'cut off at the top' : ''].filter(Boolean).join('; '),
            height: 250,
            bands,
            events: options.events ? options.events() : [],
            x: {...axes.step},
            y: {zero: true, ...y, most: isCut ? most : Infinity},
            curves
        };
    }, {log: options.log});
}

const medianOf = list => [...list].sort((a, b) => a - b)[list.length >> 1];

/* Who came and went, and what each change cost. */
function membersCard(data) {
    const multi = several(data), runs = data.runs.filter(run => (run.views || []).length > 1);
    if (!runs.length) return null;
    const forms = runs.some(run => run.views.some(view => view.name));
    const c = card('members', forms ? 'Who took part, and what crossed the wire' : 'Who took part',
        'ranks of lost processes and of those that came', null, true);
    const heads = ['from step', 'ranks', 'what', 'why', 'others stood still', 'rows not counted',
                   ...forms ? ['expected against staying'] : []];
    const gained = view => (view.expected || []).length
        ? `${short(view.expected[2], 'plain')} times as fast (${short(view.expected[3], 'plain')} to ${
            short(view.expected[4], 'plain')})`
        : '';
    const cells = (view, k) => [
        short(view.step, 'count'), short(view.ranks, 'count'),
        k ? changeWords(view) : ['began', view.name].filter(Boolean).join(': '),
        [...view.lost.map(([, , why]) => why), view.why].filter(Boolean).join('; '),
        drawable(view.stall_s) ? short(view.stall_s, 'time') : '',
        view.rows_skipped || view.rows_in_part
            ? `${short(view.rows_skipped, 'count')}, ${short(view.rows_in_part, 'count')} in part`
            : '',
        ...forms ? [gained(view)] : []
    ];
    const rows = runs.flatMap(run => run.views.map((view, k) => make('tr', {},
        multi ? make('th', {scope: 'row'}, run.name) : null,
        cells(view, k).map((text, i) => make('td', {'data-label': heads[i]}, text)))));
    c.e.append(make('div', {class: 'table'},
        make('table', {class: 'stack'},
            make('thead', {},
                make('tr', {}, multi ? make('th', {scope: 'col'}, 'run') : null,
                    heads.map(head => make('th', {scope: 'col'}, head)))),
            make('tbody', {}, rows))));
    return c.e;
}

/* ---- nodes ---- */

const lastOf = list => (list || []).length ? list[list.length - 1] : null;
const rate = v => drawable(v) ? `${short(v, 'bytes')}/s` : '–';

/* What each machine did since the ranks had come together before, newest line of each. */
function nodesCard(data) {
    const multi = several(data), runs = data.runs.filter(run => (run.nodes || []).length);
    if (!runs.length) return null;
    const c = card('nodes', 'Nodes', 'rates since the ranks reported before', null, true);
    const heads = [
        'node', 'ranks', 'rows per pass', 'cores busy', 'machine busy', 'memory', 'of a rank', 'network out',
        'network in',
        ...runs.some(crosses) ? ['weft out', 'weft in'] : []
    ];
    if (runs.some(run => run.nodes.some(node => (node.relayed || []).some(v => v > 0)))) heads.push('relayed');
    const cells = (node, sends) => [
        `${node.node}${node.host ? `, ${node.host}` : ''}`, short(node.ranks, 'count'),
        `${node.pass_rows ? short(node.pass_rows, 'count') : '–'}${node.recomputes ? ', computed twice' : ''}`,
        `${short(lastOf(node.cpu_cores))} of ${short(node.cores, 'count')}`,
        short(lastOf(node.busy_share), 'share'), short(lastOf(node.memory_bytes), 'bytes'),
        short(lastOf(node.rank_bytes), 'bytes'), rate(lastOf(node.net_out)), rate(lastOf(node.net_in)),
        rate(sends && lastOf(node.wire_out)), rate(sends && lastOf(node.wire_in)), rate(lastOf(node.relayed))
    ].slice(0, heads.length);
    const rows = runs.flatMap(run => run.nodes.map(node => make('tr', {},
        multi ? make('th', {scope: 'row'}, run.name) : null,
        cells(node, crosses(run)).map((text, i) => make('td', {'data-label': heads[i]}, text)))));
    c.e.append(make('div', {class: 'table'},
        make('table', {class: 'stack'},
            make('thead', {},
                make('tr', {}, multi ? make('th', {scope: 'col'}, 'run') : null,
                    heads.map(head => make('th', {scope: 'col'}, head)))),
            make('tbody', {}, rows))));
    return c.e;
}

/* A figure of the nodes over the steps, the first few of each run. */
function nodeChart(data, id, title, y, field) {
    const curves = () => shown(data).flatMap(({run, i}) => (run.nodes || []).slice(0, 8).map(node => ({
        name: several(data) ? id : `node ${node.node}`,
        label: several(data) ? `${run.name}, node ${node.node}` : `node ${node.node}`,
        x: node.step,
        y: node[field],
        shape: i,
        colour: several(data) ? colourOf(i) : colourOf(node.node),
        data: {'data-run': i}
    })));
    const drawn = data.runs.some(run => (run.nodes || []).some(n => n.step.length > 1 && n[field].some(drawable)));
    return drawn ? chartCard(id, title, () => ({
        height: 250,
        x: {...axes.step},
        y: {zero: true, ...y},
        curves: curves()
    })) : null;
}

const nodeCharts = data => [
    nodeChart(data, 'cpu', 'Cores busy with a node\'s ranks', {title: 'cores', kind: 'plain'}, 'cpu_cores'),
    nodeChart(data, 'network', 'Network of a node\'s machine, out', {title: 'per second', kind: 'bytes'}, 'net_out')
].filter(Boolean);

/* What crossed the wire, from one change to the next: its mean step, predicted and measured. */
function formsOf(run) {
    const steps = column(run.steps, 'step'), times = column(run.steps, 'step_s'), views = run.views || [];
    const begun = views.filter((v, k) => k && v.why && v.name && v.name !== views[k - 1].name);
    const forms = [
        {name: (views[0] || {}).name, from: -Infinity, predicted: (run.prediction || {}).step_s},
        ...begun.map(v => ({name: v.name, from: v.step, predicted: (v.expected || [])[1]}))
    ];
    return forms.map((form, k) => {
        const to = k + 1 < forms.length ? forms[k + 1].from : Infinity;
        const own = times.filter((t, i) => drawable(t) && steps[i] >= form.from && steps[i] < to);
        return {...form, to, measured: own.reduce((sum, t) => sum + t, 0) / own.length};
    });
}

/* The time of each step, and where the predicted ones lie. */
function stepChart(data) {
    const forecasts = () => shown(data).filter(({run}) => run.prediction);
    const most = curves => 3 *
        Math.max(...curves.map(c => medianOf(c.y.filter(drawable)) || 0),
            ...forecasts().map(({run}) => run.prediction.high_step_s || 0));
    const bands = () => several(data)
        ? []
        : forecasts().filter(({run}) => formsOf(run).length === 1).map(({run}) => run.prediction).filter(p => p.low_step_s < p.high_step_s).map(p => ({
              label: '5 to 95 % of the predicted steps',
              low: p.low_step_s,
              high: p.high_step_s,
              colour: 2
          }));
    const more = () => forecasts().map(({run, i}) => {
        const steps = column(run.steps, 'step'), forms = formsOf(run), last = steps[steps.length - 1];
        const level = form => forms.length > 1 ? form.predicted : run.prediction.median_step_s;
        return {
            name: 'predicted',
            label: several(data) ? `${run.name}, predicted` : 'predicted',
            x: forms.flatMap(form => [Math.max(form.from, steps[0]), Math.min(form.to, last)]),
            y: forms.flatMap(form => [level(form), level(form)]),
            colour: several(data) ? colourOf(i) : 2,
            mark: 'dash',
            data: {'data-run': i}
        };
    });
    return columnChart(data, 'time', 'Time of a step', {title: 'per step', kind: 'time'},
        [['measured', 'step_s', 1, 'thin']],
        {most, bands, more, events: () => eventsOf(data, 'step')});
}

/* Charts that are there if any run has their numbers. */
function plainCharts(data) {
    const list = [
        ['speed', 'Throughput', {title: 'tokens per second', kind: 'count'}, [['', 'tokens_per_s', 7, 'thin']]],
        [
            'wire', 'Bytes on the wire per step', {title: 'per step', kind: 'bytes'},
            [['out', 'wire_bytes_out', 1, 'line'], ['in', 'wire_bytes_in', 3, 'dash']],
            {log: true, note: 'of one node'}
        ],
        [
            'local', 'Bytes inside the node per step', {title: 'per step', kind: 'bytes'},
            [['', 'local_bytes_out', 4, 'line']], {log: true}
        ],
        [
            'consensus', 'Distance of the replicas from their mean', {title: 'distance', kind: 'plain'},
            [
                ['estimate', 'consensus_distance', 7, 'thin'],
                ['exact', 'exact_consensus_distance', 2, 'dots', 'evaluations']
            ],
            {note: 'before each mixing'}
        ],
        ['late', 'Late messages', {title: 'messages per step', kind: 'count'}, [['', 'late', 6, 'thin']]],
        [
            'participation', 'Participation', {title: 'ranks whose rows counted', kind: 'share'},
            [['', 'participation', 7, 'thin']]
        ],
        ['lr', 'Learning rate', {title: '', kind: 'plain'}, [['', 'lr', 4, 'line']]],
        ['gradient', 'Gradient norm', {title: '', kind: 'plain'}, [['', 'grad_norm', 6, 'thin']], {log: true}],
        ['update', 'Update norm', {title: '', kind: 'plain'}, [['', 'update_norm', 3, 'thin']], {log: true}],
    ];
    const counts = ([name, field, , , table]) =>
        data.runs.some(run => column(run[table || 'steps'], field).some(v => drawable(v) && v !== 0));
    return list
        .filter(
            ([id, , , columns]) => columns.some(counts) || id === 'speed' && has(data, 'steps', 'tokens_per_s'))
        .map(([id, title, y, columns, options]) => columnChart(data, id, title, y, columns, options));
}

/* ---- where the time of a step goes ---- */

const partNames = [
    ['computing', 1], ['exposed wait', 2], ['wait for bytes', 2], ['wait for late ranks', 6],
    ['wait for coding', 5], ['other', 8], ['exchange hidden', 3]
];
const part = (label, value) => ({label, value, colour: partNames.find(p => p[0] === label)[1]});

/* Bars of one run: its step and its exchange, measured and predicted. */
function barsOf(data, {run}) {
    const s = run.summary, p = run.prediction, prefix = several(data) ? run.name + ': ' : '';
    const exposed = exchanges(run) ? s.wait_s : 0; // else for threads of its own
    const bars = [{
        label: prefix + 'step',
        parts: [
            part('computing', s.compute_s), part('exposed wait', exposed),
            part('other', s.step_s - s.compute_s - exposed)
        ]
    }];
    const exchange = (label, all, wait) => ({
        label: prefix + label,
        second: true,
        parts: [part('exchange hidden', all - wait), part('exposed wait', Math.min(wait, all))]
    });
    if (exchanges(run) && s.exchange_s > 0) bars.push(exchange('exchange', s.exchange_s, s.wait_s));
    if (!p || formsOf(run).length > 1) return bars; // of the first form alone
    const known = (p.wait_wire_s || 0) + (p.wait_late_s || 0) + (p.wait_codec_s || 0);
    bars.push({
        label: prefix + 'step, predicted',
        parts: [
            part('computing', p.compute_s), part('wait for bytes', p.wait_wire_s),
            part('wait for late ranks', p.wait_late_s), part('wait for coding', p.wait_codec_s),
            part('other', p.wait_s - known)
        ]
    });
    if (p.exchange_s > 0) bars.push(exchange('exchange, predicted', p.exchange_s, p.wait_s));
    return bars;
}

function budgetCard(data) {
    const c = card('budget', 'Where the time of a step goes', 'mean of all steps', null, several(data)),
          legend = make('div', {class: 'legend'});
    const place = make('div', {'data-chart': 'budget'});
    c.e.append(legend, place);
    painters.push(() => {
        const bars = shown(data).map(one => barsOf(data, one));
        const used = partNames.filter(
            ([name]) => bars.flat().some(b => b.parts.some(p => p.label === name && p.value >= 1e-6)));
        legend.replaceChildren(
            ...used.map(([name, colour]) => make('span', {class: 'key'}, make('i', {colour}), name)));
        drawBars(place, bars);
    });
    return c.e;
}

/* ---- predicted beside measured ---- */

/* [label, name, kind, of what it is]; of shares no difference is given. */
const besideRows = [
    ['time of a step (median)', 'median_step_s', 'time'],
    ['time of a step (mean)', 'step_s', 'time'],
    ['computing', 'compute_s', 'time'],
    ['exchange', 'exchange_s', 'time', 'exchange'],
    ['of it waited for', 'wait_s', 'time', 'exchange'],
    ['exchange hidden', 'hidden_share', 'share', 'exchange'],
    ['tokens per second', 'tokens_per_s', 'count'],
    ['sent per step and node', 'wire_bytes_out', 'bytes', 'wire'],
];

function difference(predicted, measured) {
    const share = measured / predicted - 1, percent = Math.round(100 * share);
    return drawable(predicted) && drawable(measured) && isFinite(share)
        ? `${percent > 0 ? '+' : ''}${percent || 0} %`
        : '';
}

/* Of a run that has changed what crosses the wire the steps of each form. */
function besideOf(run) {
    const forms = formsOf(run), p = run.prediction, s = run.summary;
    if (forms.length > 1)
        return forms.map(form => [
            `time of a step (mean), ${form.name}${form.from > 1 ? ` from step ${form.from}` : ''}`,
            short(form.predicted, 'time'), short(form.measured, 'time'), difference(form.predicted, form.measured)
        ]);
    return besideRows.filter(([, name, , what]) => !what || applies[what](run) || p[name] > 0)
        .map(([label, name, kind]) => [
            label, short(p[name], kind), short(s[name], kind),
            kind === 'share' ? '' : difference(p[name], s[name])
        ]);
}

function besideCard(data) {
    const c = card('beside', 'Predicted beside measured', 'by weft plan, before the run', null, several(data));
    const tables = data.runs.map((run, i) => run.prediction &&
            make('table', {}, several(data) ? make('caption', {}, run.name) : null,
                make('thead', {}, make('tr', {}, ['', 'predicted', 'measured',
                    'difference'].map(h => make('th', {scope: 'col'}, h)))),
                make('tbody', {},
                    besideOf(run).map(([label, ...texts]) => make('tr', {}, make('th', {scope: 'row'}, label),
                        texts.map(text => make('td', {}, text)))))));
    painters.push(() => tables.forEach((t, i) => {
        if (t) t.hidden = state.off.has(i);
    }));
    c.e.append(make('div', {class: 'table beside'}, tables.filter(Boolean)));
    return c.e;
}

/* ---- timeline ---- */

/* Of one rank "measured", of several "rank 3"; a step begins with the earliest of them. */
function labelled(timelines) {
    const measured = timelines.filter(t => t.kind === 'measured'),
          begin = Math.min(0, ...measured.flatMap(t => t.spans.map(s => s[3])));
    return timelines.map(t => ({
        ...t,
        label: t.kind === 'measured' && measured.length > 1 ? `rank ${t.rank}` : t.kind,
        spans: t.kind === 'measured' ? t.spans.map(s => [s[0], s[1], s[2], s[3] - begin, s[4] - begin]) : t.spans
    }));
}

function timelineCard(data) {
    const sets =
        data.runs.map((run, i) => ({i, name: run.name, list: labelled(run.timelines)}))
            .filter(s => endOf(s.list) > 0);
    if (!sets.length) return null;
    const colours = colourNames(sets.flatMap(s => s.list)),
          select = make('select',
              {'aria-label': 'Run', onchange: () => change({line: Number(select.value), zoom: null})},
              sets.map(s => make('option', {value: s.i}, s.name)));
    const set = () => sets.find(s => s.i === state.line) || sets[0];
    const current = () => {
        const end = endOf(set().list);
        return {end, view: state.zoom && state.zoom.from < end ? kept(state.zoom, end) : {from: 0, to: end}};
    };
    const steerTo = view => change({zoom: view.to - view.from >= current().end * 0.9999 ? null : view});
    const by = f => () => {
        const {view, end} = current();
        steerTo(f(view, end, view.to - view.from));
    };
    const tool = (text, label, f) =>
        make('button', {type: 'button', 'aria-label': label, title: label, onclick: by(f)}, text);
    const tools = [
        sets.length > 1 ? select : null, tool('◀', 'earlier', (v, end, s) => moved(v, end, -s / 3)),
        tool('▶', 'later', (v, end, s) => moved(v, end, s / 3)),
        tool('+', 'zoom in', (v, end, s) => zoomed(v, end, 0.5, v.from + s / 2)),
        tool('−', 'zoom out', (v, end, s) => zoomed(v, end, 2, v.from + s / 2)),
        tool('whole step', 'show the whole step', (v, end) => ({from: 0, to: end}))
    ];
    const c = card('timeline', 'One step in time', '', tools, true), legend = make('div', {class: 'legend'});
    const place = make('div', {class: 'plot', 'data-chart': 'timeline', tabindex: 0, role: 'application'});
    c.e.append(legend, place);
    steer(place, current, steerTo);
    painters.push(() => {
        const {list} = set(), used = new Set(list.flatMap(t => t.spans.map(s => s[1]))),
              step = list.map(t => t.step).find(drawable),
              ranks = list.filter(t => t.kind === 'measured').length;
        select.value = set().i;
        c.note(`${several(data) ? set().name + ', ' : ''}${
            step ? `step ${step}, `
                 : ''}unit by unit, bucket by bucket${ranks > 1 ? `; the first ${ranks} ranks` : ''}. Click, then wheel to zoom, drag to move`);
        legend.replaceChildren(...keysOf([...colours].filter(([name]) => used.has(name))).map(([colour,
            names]) => make('span', {class: 'key'}, make('i', {colour}), names)));
        drawTimeline(place, list, colours, current().view);
    });
    return c.e;
}

/* ---- configuration ---- */

/* config.yaml as weft writes it, as [key, value]: nested keys joined by points. */
function settingsOf(text) {
    const out = new Map(), path = [];
    for (const line of text.split('\n')) {
        const found =
            /^( *)(- +)?(?:([\w.-]+):(?: +|$))?(.*)$/.exec(line.replace(/(^| )#(?=[^"']*$).*$/, '').trimEnd());
        if (!found || !found[0].trim()) continue;
        const [, indent, item, key, value] = found;
        while (path.length && path[path.length - 1].depth >= indent.length + (item && !key ? 1 : 0)) path.pop();
        const name = [...path.map(p => p.key), key].filter(Boolean).join('.');
        if (key && value === '')
            path.push({depth: indent.length, key});
        else if (name)
            out.set(name, out.has(name) ? `${out.get(name)}, ${value}` : value);
    }
    return out;
}

function configCard(data) {
    if (!data.runs.some(run => run.config)) return null;
    const settings = data.runs.map(run => settingsOf(run.config || '')),
          keys = [...new Set(settings.flatMap(s => [...s.keys()]))];
    const differs = key => settings.some(s => s.get(key) !== settings[0].get(key)),
          n = keys.filter(differs).length;
    const only =
        several(data) ? pressable('equal ones too', () => state.equal, on => change({equal: on})) : null;
    const c = card('config', 'Configuration',
        several(data) ? `${n} of ${keys.length} settings differ` : `${keys.length} settings`, only, true);
    const ordered = [...keys.filter(differs), ...keys.filter(k => !differs(k))];
    const rows = ordered.map(
        key => make('tr', {class: several(data) && differs(key) ? 'differs' : null},
            make('th', {scope: 'row'}, breakable(key)),
            settings.map(s => make('td', {}, s.has(key) ? breakable(s.get(key)) : '–'))));
    const table = make('table', {class: 'settings'},
        several(data) ? make('thead', {},
                            make('tr', {}, make('th', {scope: 'col'}, 'key'),
                                data.runs.map(r => make('th', {scope: 'col'}, r.name))))
                      : null,
        make('tbody', {}, rows));
    painters.push(
        () => rows.forEach((row, i) => { row.hidden = several(data) && !state.equal && !differs(ordered[i]); }));
    const box = several(data)
        ? make('div', {class: 'table'}, table)
        : make('details', {}, make('summary', {}, 'all keys'), make('div', {class: 'table'}, table));
    c.e.append(box, ...(several(data) ? [] : [make('details', {}, make('summary', {}, 'config.yaml'),
                                                 make('pre', {tabindex: 0}, data.runs[0].config))]));
    return c.e;
}
