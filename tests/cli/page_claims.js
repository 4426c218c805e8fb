/* SPDX-License-Identifier: MIT */
/* What tests of pages share: claims, and a page opened in a frame. Each claim is a line of the
 * result; one that begins with "not" does not hold. */
'use strict';

const lines = [];
const claim = (name, holds, found) => lines.push(
    holds ? `ok ${name}` : `not ${name}${found === undefined ? '' : `: found ${JSON.stringify(found)}`}`);
const same = (name, found, expected) => claim(name, JSON.stringify(found) === JSON.stringify(expected), found);

const wait = ms => new Promise(done => setTimeout(done, ms));

async function open(file, width, hash = '') {
    const frame = document.createElement('iframe');
    frame.style.cssText = `position:fixed;top:0;left:0;width:${width}px;height:900px;border:0`;
    frame.src = file + hash;
    document.body.append(frame);
    await new Promise(done => frame.addEventListener('load', done));
    const page = frame.contentDocument, facts = () => page.documentElement.dataset;
    const go = async to => {
        frame.contentWindow.location.hash = to;
        await wait(50);
    };
    const count = selector => page.querySelectorAll(selector).length;
    const name = file + hash;
    same(`${name} is drawn without an error`, [facts().ready, facts().errors, facts().error],
        ['yes', '0', undefined]);
    const wide = [...page.querySelectorAll('body *')].filter(
        e => facts().overflow !== '0' && e.getBoundingClientRect().right > width);
    same(`${name} is not wider than its window`,
        [facts().overflow, ...wide.slice(0, 3).map(e => e.outerHTML.slice(0, 80))], ['0']);
    return {frame, page, facts, go, count, close: () => frame.remove()};
}

/* Tries them all, and says so at the end. */
async function claims(all) {
    try {
        await all();
        lines.push('all claims were tried');
    } catch (e) { lines.push('not ended: ' + e.stack); }
    document.getElementById('result').textContent = '\n' + lines.join('\n') + '\n';
}
