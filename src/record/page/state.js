/* SPDX-License-Identifier: MIT */
/* What the reader chose, kept in the address behind '#':
 *
 *     #x=time&off=1,2&hide=loss.training&theme=dark&log=wire&whole=1&only=1&zoom=0.01-0.05
 *
 *     change({x: 'time'})  ->  state  ->  the address, and all painters are called
 *
 * and the small parts that sections are made of. */

const state = {
    x: 'step',
    off: new Set(),
    hide: new Set(),
    log: new Map(),
    theme: 'auto',
    whole: false,
    only: false,
    zoom: null,
    line: 0
};
const painters = [];
const root = document.documentElement;

/* ---- the state in the address ---- */

function readHash() {
    const given = new URLSearchParams(location.hash.slice(1)),
          list = name => (given.get(name) || '').split(',').filter(Boolean);
    state.x = ['step', 'time', 'bytes'].includes(given.get('x')) ? given.get('x') : 'step';
    state.off = new Set(list('off').map(Number));
    state.hide = new Set(list('hide'));
    state.log = new Map(list('log').map(id => [id.replace(/^-/, ''), !id.startsWith('-')]));
    state.theme = ['light', 'dark'].includes(given.get('theme')) ? given.get('theme') : 'auto';
    state.whole = given.get('whole') === '1';
    state.only = given.get('only') === '1';
    state.line = Number(given.get('line')) || 0;
    const zoom = (given.get('zoom') || '').split('-').map(Number);
    state.zoom = zoom.length === 2 && zoom[0] < zoom[1] ? {from: zoom[0], to: zoom[1]} : null;
}

function writeHash() {
    const out = new URLSearchParams(), s = state;
    const put = (name, value) => value && out.set(name, value);
    put('x', s.x === 'step' ? '' : s.x);
    put('off', [...s.off].join(','));
    put('hide', [...s.hide].join(','));
    put('log', [...s.log].map(([id, on]) => (on ? '' : '-') + id).join(','));
    put('theme', s.theme === 'auto' ? '' : s.theme);
    put('whole', s.whole ? '1' : '');
    put('only', s.only ? '1' : '');
    put('line', s.line ? String(s.line) : '');
    put('zoom', s.zoom ? `${s.zoom.from.toPrecision(6)}-${s.zoom.to.toPrecision(6)}` : '');
    try {
        history.replaceState(null, '', '#' + out);
    } catch (e) { /* some browsers refuse this for files: the page works without it */
    }
}

/* Paints all anew, and leaves for tests, on <html>, what there is to see. */
function paint() {
    if (state.theme === 'auto')
        delete root.dataset.theme;
    else
        root.dataset.theme = state.theme;
    for (const painter of painters) painter();
    root.dataset.curves = document.querySelectorAll('.curve').length;
    root.dataset.paper = getComputedStyle(document.body).backgroundColor;
    root.dataset.width = innerWidth;
    root.dataset.overflow = Math.max(0, root.scrollWidth - root.clientWidth);
}

function change(next) {
    Object.assign(state, next);
    hideTip();
    writeHash();
    paint();
}

function toggle(set, item) {
    const next = new Set(set);
    if (!next.delete(item)) next.add(item);
    return next;
}

/* ---- small parts ---- */

const colourOf = i => i % 7 + 1;
const column = (table, name) => table[name] || [];
const shown = data => data.runs.map((run, i) => ({run, i})).filter(({i}) => !state.off.has(i));
const has = (data, table, name) => data.runs.some(run => column(run[table], name).some(drawable));
const several = data => data.runs.length > 1;

/* A row of buttons of which one is pressed. */
function choice(label, options, get, set) {
    const buttons =
        options.map(([value, text]) => make('button', {type: 'button', onclick: () => set(value)}, text));
    painters.push(
        () => buttons.forEach((b, i) => b.setAttribute('aria-pressed', String(get() === options[i][0]))));
    return make('div', {class: 'choice', role: 'group', 'aria-label': label}, buttons);
}

/* A button that is pressed or not. */
function pressable(text, get, set) {
    const button = make('button', {type: 'button', onclick: () => set(!get())}, text);
    painters.push(() => button.setAttribute('aria-pressed', String(get())));
    return make('div', {class: 'choice'}, button);
}

function card(id, title, note, tools, wide) {
    const small = make('small', {}, note || '');
    const head = make('div', {class: 'head'}, make('h2', {id: 'h-' + id}, title, ' ', small),
        tools ? make('div', {class: 'tools'}, tools) : null);
    const e = make('section',
        {class: wide ? 'card wide' : 'card', 'aria-labelledby': 'h-' + id, 'data-section': id}, head);
    return {e, note: text => { small.textContent = text; }};
}
