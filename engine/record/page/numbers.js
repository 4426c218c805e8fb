/* SPDX-License-Identifier: MIT */
/* Numbers for eyes: units that fit, about three digits, round ticks.
 *
 *     short(0.2361, 'time') = '236 ms'      short(12500, 'count') = '12.5k'
 *     ticks(0, 9, 5)        = 0 2 4 6 8     step is 1, 2 or 5 times a power of ten
 *
 * What is not finite, or beyond 1e100, is not drawn and is written as a dash. */
'use strict';

/* [from which size on, factor, suffix after each number, unit of the axis] */
const units = {
    count:
        [[1e12, 1e12, 'T', ''], [1e9, 1e9, 'G', ''], [1e6, 1e6, 'M', ''], [1e4, 1e3, 'k', ''], [0, 1, '', '']],
    time: [
        [7200, 3600, '', 'h'], [180, 60, '', 'min'], [1, 1, '', 's'], [1e-3, 1e-3, '', 'ms'],
        [0, 1e-6, '', 'µs']
    ],
    bytes: [
        [1e12, 1e12, '', 'TB'], [1e9, 1e9, '', 'GB'], [1e6, 1e6, '', 'MB'], [1e3, 1e3, '', 'kB'],
        [0, 1, '', 'B']
    ],
    plain: [[1e6, 1e6, '', '× 10⁶'], [1e-2, 1, '', ''], [1e-5, 1e-3, '', '× 10⁻³'], [0, 1e-6, '', '× 10⁻⁶']],
    share: [[0, 0.01, ' %', '']],
    times: [[0, 1, ' ×', '']],
};

const drawable = x => typeof x === 'number' && Math.abs(x) <= 1e100;

/* How numbers of up to this size are written. */
function unitFor(kind, largest) {
    const size = largest === 0 && kind !== 'bytes' ? 1 : Math.abs(largest);
    const row = units[kind].find(r => size >= r[0]) || units[kind][units[kind].length - 1];
    return {factor: row[1], suffix: row[2], unit: row[3]};
}

function short(value, kind = 'plain') {
    if (!drawable(value)) return '–';
    const u = unitFor(kind, value), shown = value / u.factor + 0, size = Math.abs(shown);
    let decimals = size >= 99.95 ? 0 : size >= 9.995 ? 1 : 2;
    if (kind === 'share') decimals = 0;
    if ((kind === 'times' || kind === 'count') && size > 0 && size < 0.01) decimals = Math.min(6, Math.ceil(-Math.log10(size) - 1e-9));
    if (kind === 'plain' && size < 9.9995) decimals = 3;
    if (kind !== 'plain' && Math.abs(shown - Math.round(shown)) <= 1e-9 * size) decimals = 0;
    return shown.toFixed(decimals).replace(/^-(0\.?0*)$/, '$1') + u.suffix + (u.unit ? ' ' + u.unit : '');
}

/* Round numbers inside [low, high], about `aim` of them. */
function ticks(low, high, aim) {
    const rough = (high - low) / aim, power = 10 ** Math.floor(Math.log10(rough)), digit = rough / power;
    const step = (digit < 1.5 ? 1 : digit < 3.5 ? 2 : digit < 7.5 ? 5 : 10) * power;
    const slack = 1e-9 * (high - low), first = Math.ceil((low - slack) / step), values = [];
    if (!(step > 0) || !isFinite(step)) return {values: [low], decimals: 0};
    for (let i = first; i * step <= high + slack && values.length < 20; i++) values.push(i * step);
    return {values, decimals: Math.min(9, Math.max(0, -Math.floor(Math.log10(step * 1.000001))))};
}

/* Powers of ten, with 2 and 5 between them where there are few. */
function logTicks(low, high) {
    const from = Math.floor(Math.log10(low)), to = Math.ceil(Math.log10(high)), values = [];
    const digits = to - from <= 3 ? [1, 2, 5] : [1], every = Math.max(1, Math.ceil((to - from) / 8));
    for (let power = from; power <= to; power += every)
        for (const digit of digits) {
            const value = digit * 10 ** power;
            if (value >= low * 0.999999 && value <= high * 1.000001) values.push(value);
        }
    return values;
}

/* From a number to a place in pixels and back. `log` needs low > 0. */
function makeScale(low, high, from, to, log) {
    const f = log ? Math.log : x => x, g = log ? Math.exp : x => x;
    const a = f(low), span = f(high) - a || 1;
    const place = x => from + (f(x) - a) / span * (to - from);
    return {low, high, log, place, value: px => g(a + (px - from) / (to - from) * span)};
}

/* Ticks of a scale as [place, text], and the unit they share. */
function scaleTicks(scale, kind, aim) {
    if (scale.log) {
        const values = logTicks(scale.low, scale.high);
        return {unit: '', rows: values.map(v => [scale.place(v), short(v, kind).replace(/\.0+(?=\D|$)/, '')])};
    }
    const u = unitFor(kind, Math.max(Math.abs(scale.low), Math.abs(scale.high)));
    const t = ticks(scale.low / u.factor, scale.high / u.factor, aim);
    const rows =
        t.values.map(v => [scale.place(v * u.factor), v === 0 ? '0' : v.toFixed(t.decimals) + u.suffix]);
    return {unit: u.unit, rows};
}

/* Index of the value nearest to x in an ascending list. */
function nearest(list, x) {
    let low = 0, high = list.length - 1;
    while (low < high) {
        const middle = (low + high) >> 1;
        if (list[middle] < x)
            low = middle + 1;
        else
            high = middle;
    }
    return low > 0 && x - list[low - 1] < list[low] - x ? low - 1 : low;
}
