/* SPDX-License-Identifier: MIT */
/* What the reader chose, kept in the address behind '#':
 *
 *     #x=time&smooth=more&off=1,2&hide=loss.training&theme=dark&log=wire&whole=1&equal=1&zoom=0.01-0.05
 *     &range=loss:100:200:3:3.5,time:100:200
 *
 *     change({x: 'time'})  ->  state  ->  the address, and all painters are called
 */

const state = {
    x: 'step',
    smooth: '',
    off: new Set(),
    hide: new Set(),
    log: new Map(),
    range: new Map(),
    theme: 'auto',
    whole: false,
    equal: false,
    zoom: null,
    line: 0
};

/* ---- the state in the address ---- */

function readHash() {
    const given = new URLSearchParams(location.hash.slice(1)),
          list = name => (given.get(name) || '').split(',').filter(Boolean);
    state.x = ['step', 'time', 'bytes'].includes(given.get('x')) ? given.get('x') : 'step';
    state.smooth = ['none', 'more'].includes(given.get('smooth')) ? given.get('smooth') : '';
    state.off = new Set(list('off').map(Number));
    state.hide = new Set(list('hide'));
    state.log = new Map(list('log').map(id => [id.replace(/^-/, ''), !id.startsWith('-')]));
    state.range = new Map(list('range').map(text => text.split(':')).map(([id, ...v]) => [id, v.map(Number)])
        .filter(([, v]) => [2, 4].includes(v.length) && v.every(drawable) && v[0] < v[1] && !(v[2] >= v[3])));
    state.theme = ['light', 'dark'].includes(given.get('theme')) ? given.get('theme') : 'auto';
    state.whole = given.get('whole') === '1';
    state.equal = given.get('equal') === '1';
    state.line = Number(given.get('line')) || 0;
    const zoom = (given.get('zoom') || '').split('-').map(Number);
    state.zoom = zoom.length === 2 && zoom[0] < zoom[1] ? {from: zoom[0], to: zoom[1]} : null;
}

function writeHash() {
    const out = new URLSearchParams(), s = state;
    const put = (name, value) => value && out.set(name, value);
    put('x', s.x === 'step' ? '' : s.x);
    put('smooth', s.smooth);
    put('off', [...s.off].join(','));
    put('hide', [...s.hide].join(','));
    put('log', [...s.log].map(([id, on]) => (on ? '' : '-') + id).join(','));
    put('range', [...s.range].map(([id, v]) => [id, ...v.map(x => x.toPrecision(6))].join(':')).join(','));
    put('theme', s.theme === 'auto' ? '' : s.theme);
    put('whole', s.whole ? '1' : '');
    put('equal', s.equal ? '1' : '');
    put('line', s.line ? String(s.line) : '');
    put('zoom', s.zoom ? `${s.zoom.from.toPrecision(6)}-${s.zoom.to.toPrecision(6)}` : '');
    try {
        history.replaceState(null, '', '#' + out);
    } catch (e) { /* some browsers refuse this for files: the page works without it */
    }
}

/* Paints all anew. */
function paint() {
    if (state.theme === 'auto')
        delete root.dataset.theme;
    else
        root.dataset.theme = state.theme;
    paintAll();
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

/* ---- what is shown of the data ---- */

const column = (table, name) => table[name] || [];
const shown = data => data.runs.map((run, i) => ({run, i})).filter(({i}) => !state.off.has(i));
const has = (data, table, name) => data.runs.some(run => column(run[table], name).some(drawable));
const several = data => data.runs.length > 1;
