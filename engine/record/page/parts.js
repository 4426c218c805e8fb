/* SPDX-License-Identifier: MIT */
/* Small parts that pages are made of: rows of buttons, cards. What changes with the reader's
 * choices registers a painter; paintAll() calls them all. */

const painters = [];
const root = document.documentElement;
const colourOf = i => i % 7 + 1;

/* A text whose lines may break behind a point and the like. */
const breakable = text => text.split(/(?<=[._/,:-])/).flatMap(part => [part, make('wbr')]).slice(0, -1);

/* Paints all anew, and leaves for tests, on <html>, what there is to see. */
function paintAll() {
    for (const painter of painters) painter();
    root.dataset.curves = document.querySelectorAll('.curve').length;
    root.dataset.paper = getComputedStyle(document.body).backgroundColor;
    root.dataset.width = innerWidth;
    root.dataset.overflow = Math.max(0, root.scrollWidth - root.clientWidth);
}

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
