/* SPDX-License-Identifier: MIT */
/* Line charts as SVG, and bars. A chart is a function of what it shows and of the width it
 * has; nothing here knows of runs or metrics.
 *
 *     chart {id, title, note, x: {title, kind, log}, y: {title, kind, log, zero, least, most},
 *            curves: [{name, label, x: [], y: [], low: [], high: [], colour, mark, shape, data}],
 *            bands:  [{label, low, high, colour}],
 *            events: [{x, label}], range: [x from, x to, y from, y to], choose: range => {}}
 *
 * A pair of numbers that can not be drawn is a gap in its curve. */

const SVG = 'http://www.w3.org/2000/svg';

/* An element with attributes, event listeners (on...) and children: elements or text. Text
 * is always put as text, never read as HTML. */
function make(tag, attributes, ...children) {
    const inSvg = /^(svg|g|path|rect|circle|line|text|clipPath|title)$/.test(tag);
    const e = inSvg ? document.createElementNS(SVG, tag) : document.createElement(tag);
    for (const [name, value] of Object.entries(attributes || {})) {
        if (value === undefined || value === null || value === false) continue;
        if (name.startsWith('on'))
            e.addEventListener(name.slice(2), value);
        else if (name === 'style')
            e.style.cssText += value;
        else if (name === 'colour')
            e.style.setProperty('--c', `var(--c${value})`);
        else
            e.setAttribute(name, value === true ? '' : value);
    }
    for (const child of children.flat(3))
        if (child !== null && child !== undefined) e.append(child);
    return e;
}

/* ---- the tip: one for the page ---- */

function showTip(x, y, head, rows) {
    const tip = document.getElementById('tip');
    tip.replaceChildren(make('strong', {}, head),
        ...rows.map(r => make('div', {}, make('span', {}, make('i', {colour: r.colour}), r.label),
                        make('span', {}, r.value))));
    tip.hidden = false;
    const box = tip.getBoundingClientRect(), width = document.documentElement.clientWidth;
    const left = x + 14 + box.width > width ? x - 14 - box.width : x + 14;
    tip.style.left = Math.max(4, Math.min(left, width - box.width - 4)) + 'px';
    tip.style.top = Math.max(4, Math.min(y + 14, innerHeight - box.height - 4)) + 'px';
}

function hideTip() { document.getElementById('tip').hidden = true; }

/* ---- marks ---- */

/* Shapes of points, by number, so that runs differ by more than colour. */
function shapeAt(shape, x, y, r) {
    const d = [
        `M${x - r} ${y}a${r} ${r} 0 1 0 ${2 * r} 0a${r} ${r} 0 1 0 ${-2 * r} 0z`,
        `M${x - r} ${y - r}h${2 * r}v${2 * r}h${-2 * r}z`,
        `M${x} ${y - 1.25 * r}l${1.25 * r} ${2.2 * r}h${-2.5 * r}z`,
        `M${x} ${y - 1.35 * r}l${1.35 * r} ${1.35 * r}l${-1.35 * r} ${1.35 * r}l${-1.35 * r} ${-1.35 * r}z`,
    ][shape % 4];
    return make('path', {class: 'mark', d, style: 'stroke-width:1'});
}

/* The small picture of a curve in a legend. */
function keyPicture(curve) {
    const g = make(
        'g', {class: curve.mark || 'line', colour: curve.colour}, make('path', {class: 'join', d: 'M0 6H26'}));
    if (curve.mark === 'dots') {
        const dot = shapeAt(curve.shape || 0, 13, 6, 4);
        dot.style.fill = 'var(--c)';
        g.append(dot);
    }
    return make('svg', {viewBox: '0 0 26 12', 'aria-hidden': 'true'}, g);
}

/* ---- the frame ---- */

const onAxis = (axis, v) => drawable(v) && !(axis.log && !(v > 0));

/* The points of a curve that can be drawn on these axes, and all heights that it reaches. */
function pointsOf(curve, spec) {
    const px = [], py = [], reach = [];
    for (let i = 0; i < curve.x.length; i++) {
        const x = curve.x[i], y = curve.y[i];
        if (!onAxis(spec.x, x) || !onAxis(spec.y, y)) continue;
        px.push(x);
        py.push(y);
        if (spec.range && (x < spec.range[0] || x > spec.range[1])) continue;
        reach.push(y, ...[curve.low, curve.high].map(list => list && list[i]).filter(v => onAxis(spec.y, v)));
    }
    return {x: px, y: py, reach};
}

function rangeOf(lists, extra) {
    let low = Infinity, high = -Infinity;
    for (const list of [...lists, extra])
        for (const value of list) {
            if (value < low) low = value;
            if (value > high) high = value;
        }
    return low <= high ? [low, high] : null;
}

/* Ranges of both axes, or null if there is nothing to draw. */
function frameOf(spec, points) {
    const bands = (spec.bands || []).flatMap(b => [b.low, b.high]).filter(drawable);
    const x = rangeOf(points.map(p => p.x), []);
    const y = rangeOf(points.map(p => p.reach), x && !spec.y.log ? bands : []) || (spec.range ? [0, 1] : null);
    if (!x || !y) return null;
    if (spec.range) {
        [x[0], x[1]] = spec.range;
        if (spec.range.length > 2 && !(spec.y.log && !(spec.range[2] > 0))) return {x, y: spec.range.slice(2)};
    }
    if (spec.y.most < y[1] && spec.y.most > y[0]) y[1] = spec.y.most;
    if (spec.y.least > y[0] && spec.y.least < y[1]) y[0] = spec.y.least;
    if (x[0] === x[1]) {
        x[0] = spec.x.log ? x[0] / 2 : x[0] - 1;
        x[1] = spec.x.log ? x[1] * 2 : x[1] + 1;
    }
    if (spec.y.log) return {x, y: [y[0] / 1.15, y[1] * 1.15]};
    if (spec.y.zero) y[0] = Math.min(0, y[0]);
    const room = (y[1] - y[0] || Math.abs(y[1]) || 1) * 0.06;
    return {x, y: [spec.y.zero && y[0] === 0 ? 0 : y[0] - room, y[1] + room]};
}

/* ---- drawing ---- */

function drawAxes(svg, spec, x, y, box) {
    const xt = scaleTicks(x, spec.x.kind, Math.max(2, box.width / 110));
    const yt = scaleTicks(y, spec.y.kind, Math.max(2, box.height / 55));
    for (const [place, text] of yt.rows)
        svg.append(make('path', {class: 'grid', d: `M${box.left} ${place}H${box.right}`}),
            make('text', {class: 'end', x: box.left - 7, y: place + 4}, text));
    svg.append(make('path', {class: 'axis', d: `M${box.left} ${box.bottom}H${box.right}`}));
    let last = -Infinity;
    for (const [place, text] of xt.rows) {
        const half = text.length * 3.4;
        svg.append(make('path', {class: 'axis', d: `M${place} ${box.bottom}v5`}));
        if (place - half < last || place + half > box.right + EDGE) continue;
        svg.append(make('text', {class: 'mid', x: place, y: box.bottom + 19}, text));
        last = place + half + 10;
    }
    const title =
        (axis, unit) => [axis.title, unit].filter(Boolean).join(', ') + (axis.log ? ', logarithmic' : '');
    svg.append(make('text', {x: 2, y: 12}, title(spec.y, yt.unit)),
        make('text', {class: 'end', x: box.right, y: box.bottom + 37}, title(spec.x, xt.unit)));
}

/* Between the least and the greatest of what each point stands for. */
function areaOf(curve, spec, x, y) {
    const edge = (list, i) => onAxis(spec.y, list[i]) ? list[i] : curve.y[i], out = [];
    if (!curve.low || !curve.high) return out;
    const drawn = curve.x.map((v, i) => i).filter(i => onAxis(spec.x, curve.x[i]) && onAxis(spec.y, curve.y[i]));
    const side = (list, order) =>
        order.map(i => `${x.place(curve.x[i]).toFixed(1)} ${y.place(edge(list, i)).toFixed(1)}`).join('L');
    if (drawn.length > 1)
        out.push(make('path',
            {class: 'area', d: `M${side(curve.high, drawn)}L${side(curve.low, drawn.slice().reverse())}Z`}));
    return out;
}

/* The path of a curve: a gap where a pair can not be drawn, a dot where one stands alone. */
function drawCurve(curve, spec, x, y) {
    const g = make('g', {
        class: `curve ${curve.mark || 'line'}`,
        colour: curve.colour,
        'data-curve': curve.name,
        ...curve.data
    });
    const alone = [];
    let d = '', length = 0, before = null;
    g.append(...areaOf(curve, spec, x, y));
    for (let i = 0; i <= curve.x.length; i++) {
        const a = curve.x[i], b = curve.y[i];
        const ok = i < curve.x.length && drawable(a) && drawable(b) && !(spec.x.log && !(a > 0)) &&
            !(spec.y.log && !(b > 0));
        if (!ok) {
            if (length === 1 && curve.mark !== 'dots') alone.push(before);
            length = 0;
            continue;
        }
        before = [x.place(a), y.place(b)];
        d += (length++ ? 'L' : 'M') + before[0].toFixed(1) + ' ' + before[1].toFixed(1);
        if (curve.mark === 'dots') alone.push(before);
    }
    g.append(make('path', {class: 'join', d}));
    const few = alone.length <= 120 ? alone : [];
    const isDots = curve.mark === 'dots';
    for (const [px, py] of few) g.append(shapeAt(isDots ? curve.shape || 0 : 0, px, py, isDots ? 3.5 : 2));
    return g;
}

function drawBands(svg, spec, y, box) {
    for (const band of spec.bands || []) {
        if (!drawable(band.low) || !drawable(band.high)) continue;
        const top = y.place(band.high), height = y.place(band.low) - top;
        svg.append(make('rect', {
            class: 'band',
            colour: band.colour,
            x: box.left,
            width: box.width,
            y: top,
            height: Math.max(height, 0)
        }));
    }
}

/* Lines from top to bottom: something happened there. */
function drawEvents(svg, spec, x, range, box) {
    for (const event of spec.events || []) {
        if (!drawable(event.x) || event.x < range[0] || event.x > range[1]) continue;
        svg.append(make('path', {
            class: 'event',
            d: `M${x.place(event.x).toFixed(1)} ${box.top}V${box.bottom}`
        }, make('title', {}, event.label)));
    }
}

/* Pixels right of the plot: half of the last tick's text. */
const EDGE = 20;
let clips = 0;

/* Draws into `place`, anew each time. */
function drawChart(place, spec) {
    const curves = spec.curves.filter(c => !c.off);
    const points = curves.map(c => pointsOf(c, spec)), range = frameOf(spec, points);
    place.dataset.curves = range ? curves.length : 0;
    if (!range) {
        place.replaceChildren(make('div', {class: 'none'},
            spec.curves.length > curves.length ? 'all curves are switched off' : 'no data'));
        return;
    }
    const width = Math.max(240, Math.floor(place.clientWidth || 600)), height = spec.height || 250;
    const y0 = makeScale(range.y[0], range.y[1], height - 46, 26, spec.y.log);
    const longest = Math.max(...scaleTicks(y0, spec.y.kind, height / 55).rows.map(r => r[1].length), 2);
    const box = {left: 12 + longest * 7, right: width - EDGE, top: 26, bottom: height - 46};
    box.width = box.right - box.left;
    box.height = box.bottom - box.top;
    const x = makeScale(range.x[0], range.x[1], box.left, box.right, spec.x.log);
    const clip = 'clip' + clips++;
    const svg = make('svg', {
        viewBox: `0 0 ${width} ${height}`,
        tabindex: 0,
        role: 'img',
        'aria-label': describe(spec, points, curves)
    },
        make('clipPath', {id: clip},
            make('rect', {x: box.left - 5, y: box.top - 5, width: box.width + 10, height: box.height + 6})));
    drawAxes(svg, spec, x, y0, box);
    const plot = make('g', {'clip-path': `url(#${clip})`});
    drawBands(plot, spec, y0, box);
    drawEvents(plot, spec, x, range.x, box);
    for (const curve of curves) plot.append(drawCurve(curve, spec, x, y0));
    svg.append(plot);
    watchPointer(svg, spec, curves, points, x, y0, box);
    if (spec.choose) dragRange(svg, spec, x, y0, box);
    place.replaceChildren(svg);
}

/* What a screen reader says of a chart. */
function describe(spec, points, curves) {
    const parts = curves.map((c, i) => {
        const y = points[i].y;
        return y.length ? `${c.label}: ${short(y[0], spec.y.kind)} to ${short(y[y.length - 1], spec.y.kind)}`
                        : `${c.label}: no data`;
    });
    return `${spec.title}, over ${spec.x.title}. ${parts.join('; ')}. Arrow keys read the values.`;
}

/* A line that follows the pointer, or the arrow keys, and the values there. */
function watchPointer(svg, spec, curves, points, x, y, box) {
    const line = make('path', {class: 'cursor'}), dots = make('g', {});
    const all = points.reduce((a, b) => (b.x.length > a.length ? b.x : a), []);
    let at = all.length - 1;
    svg.append(line, dots);
    const show = (value, clientX, clientY) => {
        const rows = [];
        dots.replaceChildren();
        curves.forEach((c, i) => {
            const p = points[i], n = p.x.length, here = x.place(value);
            if (!n || c.silent || here < x.place(p.x[0]) - 4 || here > x.place(p.x[n - 1]) + 4) return;
            const k = nearest(p.x, value), px = x.place(p.x[k]), py = y.place(p.y[k]);
            if (c.mark === 'dots' && Math.abs(px - here) > 30) return;
            const dot = make('circle', {class: 'mark', colour: c.colour, cx: px, cy: py, r: 4});
            if (py >= box.top - 1 && py <= box.bottom + 1) dots.append(dot);
            rows.push({label: c.label, value: short(p.y[k], spec.y.kind), colour: c.colour});
        });
        line.setAttribute('d', `M${x.place(value).toFixed(1)} ${box.top}V${box.bottom}`);
        showTip(clientX, clientY, `${spec.x.title} ${short(value, spec.x.kind)}`, rows);
    };
    const leave = () => {
        line.removeAttribute('d');
        dots.replaceChildren();
        hideTip();
    };
    svg.addEventListener('pointermove', e => {
        const bounds = svg.getBoundingClientRect(),
              px = (e.clientX - bounds.left) * (box.right + EDGE) / bounds.width;
        at = nearest(all, x.value(px));
        show(all[at], e.clientX, e.clientY);
    });
    svg.addEventListener('pointerleave', leave);
    svg.addEventListener('blur', leave);
    svg.addEventListener('keydown', e => {
        const far = e.shiftKey ? Math.ceil(all.length / 20) : 1;
        const to = {ArrowLeft: at - far, ArrowRight: at + far, Home: 0, End: all.length - 1}[e.key];
        if (e.key === 'Escape') leave();
        if (to === undefined) return;
        e.preventDefault();
        at = Math.max(0, Math.min(all.length - 1, to));
        const bounds = svg.getBoundingClientRect();
        show(all[at], bounds.left + x.place(all[at]) * bounds.width / (box.right + EDGE), bounds.top + box.top);
    });
}

/* Dragging chooses a range: along x, and of y too where the box is high. Two clicks show all. */
function dragRange(svg, spec, x, y, box) {
    const frame = make('rect', {class: 'choosing'});
    let from = null;
    const at = e => {
        const bounds = svg.getBoundingClientRect(), k = (box.right + EDGE) / bounds.width;
        const inside = (v, low, high) => Math.max(low, Math.min(high, v));
        return [inside((e.clientX - bounds.left) * k, box.left, box.right),
            inside((e.clientY - bounds.top) * k, box.top, box.bottom)];
    };
    const chosen = to => {
        const [l, r] = [from[0], to[0]].sort((a, b) => a - b), [t, b] = [from[1], to[1]].sort((a, c) => a - c);
        return {l, r, ...(b - t > 24 ? {t, b, high: true} : {t: box.top, b: box.bottom})};
    };
    svg.append(frame);
    svg.classList.add('zooms');
    svg.addEventListener('pointerdown', e => {
        if (e.button === 0) from = at(e);
    });
    svg.addEventListener('pointermove', e => {
        if (!from) return;
        const c = chosen(at(e));
        for (const [name, v] of [['x', c.l], ['y', c.t], ['width', c.r - c.l], ['height', c.b - c.t]])
            frame.setAttribute(name, v);
    });
    svg.addEventListener('pointerup', e => {
        const c = from && chosen(at(e));
        from = null;
        frame.removeAttribute('width');
        if (!c || c.r - c.l < 8) return;
        spec.choose([x.value(c.l), x.value(c.r), ...(c.high ? [y.value(c.b), y.value(c.t)] : [])]);
    });
    svg.addEventListener('pointercancel', () => { from = null; });
    svg.addEventListener('dblclick', () => spec.choose(null));
}

/* ---- files ---- */

/* What a chart shows, a line for each point. */
function csvOf(spec) {
    const cell = v => typeof v === 'string' ? `"${v.replace(/"/g, '""')}"` : drawable(v) ? String(v) : '';
    const rows = [['curve', spec.x.title, spec.y.title || spec.title, 'least', 'greatest']];
    for (const c of spec.curves.filter(curve => !curve.off))
        c.x.forEach((x, i) => rows.push([c.label || c.name || spec.title, x, c.y[i], c.low ? c.low[i] : NaN,
            c.high ? c.high[i] : NaN]));
    return rows.map(row => row.map(cell).join(',')).join('\r\n') + '\r\n';
}

/* A chart as a picture, twice as fine as the screen, with its title and its curves' names. */
async function pictureOf(spec, svg) {
    const HEAD = 44, [, , width, height] = svg.getAttribute('viewBox').split(' ').map(Number), copy = svg.cloneNode(true);
    const dark = getComputedStyle(document.body).colorScheme.includes('dark') && root.dataset.theme !== 'light' &&
        (root.dataset.theme === 'dark' || matchMedia('(prefers-color-scheme: dark)').matches);
    copy.setAttribute('viewBox', `0 ${-HEAD} ${width} ${height + HEAD}`);
    copy.setAttribute('width', 2 * width);
    copy.setAttribute('height', 2 * (height + HEAD));
    copy.dataset.theme = dark ? 'dark' : 'light';
    copy.style.font = getComputedStyle(document.body).font;
    const names = [...new Map(spec.curves.filter(c => !c.off && c.label).map(c => [c.label, c.colour]))];
    copy.prepend(make('style', {}, document.querySelector('style').textContent),
        make('rect', {x: 0, y: -HEAD, width, height: height + HEAD, style: 'fill:var(--card)'}),
        make('text', {class: 'name', x: 4, y: 16 - HEAD}, spec.title));
    let x = 4;
    for (const [label, colour] of names) {
        copy.append(make('rect', {x, y: 25 - HEAD, width: 10, height: 10, colour, style: 'fill:var(--c)'}),
            make('text', {x: x + 14, y: 34 - HEAD}, label));
        x += 30 + label.length * 6.6;
    }
    const image = new Image(), canvas = document.createElement('canvas');
    image.src = 'data:image/svg+xml,' + encodeURIComponent(new XMLSerializer().serializeToString(copy));
    await image.decode();
    canvas.width = 2 * width;
    canvas.height = 2 * (height + HEAD);
    canvas.getContext('2d').drawImage(image, 0, 0);
    return new Promise(done => { canvas.toBlob(done, 'image/png'); });
}

function save(blob, name) {
    const link = make('a', {href: URL.createObjectURL(blob), download: name});
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}

/* ---- bars ---- */

/* Groups of bars on one scale: [[{label, second, parts: [{label, value, colour}]}]], values in
 * seconds. */
function drawBars(place, groups) {
    const total = bar => bar.parts.reduce((sum, p) => sum + (p.value > 0 ? p.value : 0), 0);
    const longest = Math.max(0, ...groups.flat().map(total));
    place.dataset.bars = longest > 0 ? groups.flat().length : 0;
    if (!(longest > 0)) {
        place.replaceChildren(make('div', {class: 'none'}, 'no data'));
        return;
    }
    place.replaceChildren(
        ...groups.map(bars => make('div', {}, bars.map(bar => drawBar(bar, total(bar), longest)))));
    const words = document.createRange();
    for (const piece of place.querySelectorAll('.strip div')) {
        words.selectNodeContents(piece);
        if (words.getBoundingClientRect().width + 4 > piece.clientWidth) piece.textContent = '';
    }
}

function drawBar(bar, all, longest) {
    const parts = bar.parts.filter(p => p.value > 0);
    const words = parts.map(p => `${p.label} ${short(p.value, 'time')}`).join(', ');
    const strip =
        make('div', {class: 'strip', role: 'img', 'aria-label': `${bar.label}: ${words}`, tabindex: 0},
            parts.map(p => make('div', {colour: p.colour, style: `width:${100 * p.value / longest}%`},
                          short(p.value / all, 'share'))));
    const tip = e => {
        const bounds = strip.getBoundingClientRect();
        showTip(e.clientX || bounds.left, e.clientY || bounds.bottom, bar.label, parts.map(p => ({
            label: p.label,
            value: `${short(p.value, 'time')}, ${short(p.value / all, 'share')}`,
            colour: p.colour
        })));
    };
    for (const name of ['pointermove', 'focus']) strip.addEventListener(name, tip);
    for (const name of ['pointerleave', 'blur']) strip.addEventListener(name, hideTip);
    return make('div', {class: bar.second ? 'bar second' : 'bar'},
        make('div', {}, make('b', {}, bar.label), make('span', {}, short(all, 'time'))), strip);
}
