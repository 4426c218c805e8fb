/* SPDX-License-Identifier: MIT */
/* The timeline of recorded steps: one row per thread and wire, measured above predicted, on
 * one scale that can be zoomed and moved.
 *
 *     computing, measured   |forward|forward|  backward  |  backward  | wait | apply |
 *     exchange, measured                       |begin|combine| end |
 *
 * Lanes, names and their order come from the data; a name has one colour in the whole page. */

const laneLabels = {
    compute: 'computing',
    exchange: 'exchange thread',
    wire: 'wire'
};

/* Spans [lane, what, index, begin, end] of several timelines as lanes with rows: spans that
 * overlap in one lane lie below each other. */
function lanesOf(timelines) {
    const names = [...new Set(timelines.flatMap(t => t.spans.map(s => s[0])))], lanes = [];
    for (const name of names)
        for (const t of timelines) {
            const spans = t.spans.filter(s => s[0] === name).sort((a, b) => a[3] - b[3]), rows = [];
            for (const s of spans) {
                let row = rows.find(r => r[r.length - 1][4] <= s[3] + 1e-9);
                if (!row && rows.length >= 6) row = rows[5];
                if (row)
                    row.push(s);
                else
                    rows.push([s]);
            }
            if (rows.length) lanes.push({label: `${laneLabels[name] || name}, ${t.label}`, rows});
        }
    return lanes;
}

/* A name's colour by how long it takes in all timelines of the page: there are more names than
 * colours, and those that take next to no time share the last one. */
function colourNames(timelines) {
    const takes = new Map();
    for (const t of timelines)
        for (const s of t.spans) takes.set(s[1], (takes.get(s[1]) || 0) + s[4] - s[3]);
    const longest = [...takes.keys()].sort((a, b) => takes.get(b) - takes.get(a));
    return new Map([...takes.keys()].map(
        name => [name, [1, 4, 2, 3, 5, 6, 7, 8][Math.min(longest.indexOf(name), 7)]]));
}

/* A legend of [name, colour]: [colour, names], one entry for each colour, the shared one last. */
function keysOf(named) {
    const keys = new Map();
    for (const [name, colour] of named) keys.set(colour, [...keys.get(colour) || [], name]);
    return [...keys].map(([colour, names]) => [colour, names.join(', ')]).sort((a, b) => (a[0] === 8) - (b[0] === 8));
}

const endOf = timelines => Math.max(0, ...timelines.map(t => t.spans.reduce((m, s) => Math.max(m, s[4]), 0)));

/* Draws the part of the timelines that `view`, {from, to} in seconds, shows. */
function drawTimeline(place, timelines, colours, view) {
    const HEAD = 20, ROW = 22, GAP = 8, lanes = lanesOf(timelines), end = endOf(timelines);
    const width = Math.max(240, Math.floor(place.clientWidth || 600)), left = 2, right = width - 2;
    const height = lanes.reduce((sum, lane) => sum + HEAD + lane.rows.length * ROW + GAP, 0) + 28;
    const x = makeScale(view.from, view.to, left, right);
    const svg = make('svg', {class: 'lanes', viewBox: `0 0 ${width} ${height}`, 'aria-hidden': 'true'});
    let top = 0, drawn = 0;
    for (const lane of lanes) {
        svg.append(make('text', {class: 'name', x: left, y: top + 14}, lane.label));
        top += HEAD;
        for (const row of lane.rows) {
            svg.append(make('rect', {class: 'row', x: left, y: top, width: right - left, height: ROW - 2}));
            drawn += drawRow(svg, row, x, top, ROW - 2, colours);
            top += ROW;
        }
        top += GAP;
    }
    drawTimes(svg, x, top, left, right);
    place.dataset.spans = drawn;
    place.setAttribute('aria-label',
        `Timeline, ${short(view.from, 'time')} to ${short(view.to, 'time')} of ` +
            `${short(end, 'time')}. Plus and minus zoom, arrow keys move, 0 shows all.`);
    place.replaceChildren(svg);
}

/* Returns the number of spans drawn; of those that share one pixel only the first is. */
function drawRow(svg, row, x, top, height, colours) {
    let last = -1, n = 0;
    for (const s of row) {
        const a = Math.max(x.place(s[3]), x.place(x.low)), b = Math.min(x.place(s[4]), x.place(x.high));
        if (b < a || s[4] < x.low || s[3] > x.high) continue;
        if (b - a < 0.5 && Math.floor(a) === last) continue;
        if (b - a < 1) last = Math.floor(a);
        const label = `${s[1]} ${s[2]}`;
        const rect = make('rect', {
            class: 'span',
            colour: colours.get(s[1]),
            x: a.toFixed(2),
            y: top,
            width: Math.max(b - a, 0.5).toFixed(2),
            height
        });
        rect.addEventListener('pointermove', e => showTip(e.clientX, e.clientY, label, [
            {label: 'takes', value: short(s[4] - s[3], 'time'), colour: colours.get(s[1])},
            {label: 'begins at', value: short(s[3], 'time'), colour: colours.get(s[1])}
        ]));
        rect.addEventListener('pointerleave', hideTip);
        svg.append(rect);
        if (b - a > label.length * 6.4 + 6)
            svg.append(make('text', {class: 'label mid', x: (a + b) / 2, y: top + height / 2 + 4}, label));
        n++;
    }
    return n;
}

function drawTimes(svg, x, top, left, right) {
    const t = scaleTicks(x, 'time', Math.max(2, (right - left) / 110));
    svg.append(make('path', {class: 'axis', d: `M${left} ${top}H${right}`}));
    for (const [place, text] of t.rows) {
        const label = `${text} ${t.unit}`, half = label.length * 3.4;
        svg.append(make('path', {class: 'axis', d: `M${place} ${top}v5`}));
        if (place - half >= left && place + half <= right)
            svg.append(make('text', {class: 'mid', x: place, y: top + 19}, label));
    }
}

/* ---- zoom and pan ---- */

/* The view zoomed by `factor` around a time, kept inside 0..end. */
function zoomed(view, end, factor, around) {
    const span = Math.min(end, Math.max((view.to - view.from) * factor, end / 5000));
    const share = (around - view.from) / (view.to - view.from);
    return kept({from: around - share * span, to: around + (1 - share) * span}, end);
}

function kept(view, end) {
    const span = Math.min(end, view.to - view.from), from = Math.max(0, Math.min(view.from, end - span));
    return {from, to: from + span};
}

function moved(view, end, seconds) { return kept({from: view.from + seconds, to: view.to + seconds}, end); }

/* Keys, the wheel (with Ctrl, or when the drawing has the focus), dragging, two fingers.
 * `current()` is {view, end}; `change` is called with the next view. */
function steer(place, current, change) {
    const timeAt = (clientX, view) => {
        const bounds = place.getBoundingClientRect();
        return view.from + (clientX - bounds.left) / bounds.width * (view.to - view.from);
    };
    place.addEventListener('wheel', e => {
        if (!e.ctrlKey && document.activeElement !== place) return;
        const {view, end} = current(), span = view.to - view.from;
        e.preventDefault();
        if (Math.abs(e.deltaX) > Math.abs(e.deltaY))
            change(moved(view, end, e.deltaX / 800 * span));
        else
            change(zoomed(
                view, end, Math.exp(Math.max(-1, Math.min(1, e.deltaY / 300))), timeAt(e.clientX, view)));
    }, {passive: false});
    place.addEventListener('keydown', e => {
        const {view, end} = current(), span = view.to - view.from, middle = (view.from + view.to) / 2;
        const next = {
            '+': () => zoomed(view, end, 0.5, middle),
            '=': () => zoomed(view, end, 0.5, middle),
            '-': () => zoomed(view, end, 2, middle),
            0: () => ({from: 0, to: end}),
            Home: () => moved(view, end, -end),
            End: () => moved(view, end, end),
            ArrowLeft: () => moved(view, end, -span / 5),
            ArrowRight: () => moved(view, end, span / 5),
        }[e.key];
        if (!next || e.ctrlKey || e.altKey || e.metaKey) return;
        e.preventDefault();
        change(next());
    });
    drag(place, current, change, timeAt);
}

/* One finger, or the mouse, moves; two fingers zoom. */
function drag(place, current, change, timeAt) {
    const fingers = new Map();
    let grip = null;
    const hold = () => { grip = {view: current().view, at: new Map(fingers)}; };
    place.addEventListener('pointerdown', e => {
        fingers.set(e.pointerId, e.clientX);
        place.setPointerCapture(e.pointerId);
        hold();
    });
    place.addEventListener('pointermove', e => {
        if (!fingers.has(e.pointerId)) return;
        fingers.set(e.pointerId, e.clientX);
        const {view} = grip, {end} = current(), ids = [...grip.at.keys()];
        const before = ids.map(id => timeAt(grip.at.get(id), view)),
              now = ids.map(id => timeAt(fingers.get(id), view));
        if (ids.length === 1)
            change(moved(view, end, before[0] - now[0]));
        else
            change(
                zoomed(view, end, Math.abs(before[1] - before[0]) / Math.max(Math.abs(now[1] - now[0]), 1e-12),
                    (before[0] + before[1]) / 2));
    });
    for (const name of ['pointerup', 'pointercancel'])
        place.addEventListener(name, e => {
            fingers.delete(e.pointerId);
            hold();
        });
}
