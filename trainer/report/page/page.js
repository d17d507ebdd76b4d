'use strict';
// Draws the page of a run from the JSON in the element "run" (report_page.cc). Everything from outside becomes text nodes
// and attributes, never markup.

const run = JSON.parse(document.getElementById('run').textContent);

// --- Elements

function element(name, attributes, ...children) {
  const svg = ['svg', 'path', 'circle', 'rect', 'line', 'text', 'title'].includes(name);
  const made = svg ? document.createElementNS('http://www.w3.org/2000/svg', name) : document.createElement(name);
  for (const [key, value] of Object.entries(attributes || {})) {
    if (value !== undefined && value !== null) made.setAttribute(key, value);
  }
  made.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== ''));
  return made;
}

const section = (id, title, ...body) => element('section', {id}, element('h2', {}, title), ...body);
const absent = (...sentence) => element('p', {class: 'absent'}, ...sentence);
const row = (cells, kind = 'td') => element('tr', {}, cells.map((cell) => element(kind, {}, cell)));

// --- Numbers as people read them

const finite = (value) => typeof value === 'number' && Number.isFinite(value);
const number = (value, digits = 4) => finite(value) ? String(Number(value.toPrecision(digits))) : 'not a number';
const withCommas = (value) => Math.round(value).toLocaleString('en-US');
const percent = (share, decimals = 1) => finite(share) ? (100 * share).toFixed(decimals) + ' %' : 'not known';

function duration(seconds) {
  if (!finite(seconds)) return 'not known';
  if (seconds < 1e-3) return number(seconds * 1e6, 3) + ' us';
  if (seconds < 1) return number(seconds * 1e3, 3) + ' ms';
  if (seconds < 60) return number(seconds, 3) + ' s';
  const whole = Math.round(seconds);
  if (seconds < 3600) return Math.floor(whole / 60) + ' min ' + whole % 60 + ' s';
  return withCommas(Math.floor(whole / 3600)) + ' h ' + Math.floor(whole % 3600 / 60) + ' min';
}

function bytes(count) {
  const units = ['B', 'KiB', 'MiB', 'GiB'];
  let unit = 0;
  for (; count >= 1024 && unit + 1 < units.length; ++unit) count /= 1024;
  return (count < 1000 ? number(count, 3) : count.toFixed(0)) + ' ' + units[unit];
}

// --- Line charts

const chart = {width: 480, height: 260, left: 58, right: 466, top: 14, bottom: 220};
const drawn = (value) => finite(value) && Math.abs(value) < 1e150;  // so that differences are finite, too

function place(axis, value) {
  const at = axis.logarithmic ? Math.log : (x) => x;
  return axis.from + (at(value) - at(axis.low)) / (at(axis.high) - at(axis.low)) * (axis.to - axis.from);
}

function rangeOf(series, index) {
  const values = series.flatMap((one) => one.points.map((point) => point[index])).filter(drawn);
  if (values.length === 0) return {low: 0, high: 1};
  return {low: values.reduce((a, b) => Math.min(a, b)), high: values.reduce((a, b) => Math.max(a, b))};
}

function xAxis(series) {
  const axis = {...rangeOf(series, 0), from: chart.left, to: chart.right};
  axis.low = Math.min(axis.low, 0);
  if (axis.high <= axis.low) axis.high = axis.low + 1;
  return axis;
}

// Large values beside small ones (a factor of 12) get a logarithmic axis.
function yAxis(series, text) {
  const axis = {...rangeOf(series, 1), from: chart.bottom, to: chart.top};
  axis.logarithmic = !text.fromZero && axis.low > 0 && axis.high > 12 * axis.low;
  if (axis.logarithmic) {
    axis.low *= 0.9;
    axis.high *= 1.1;
    return axis;
  }
  if (text.fromZero) axis.low = Math.min(axis.low, 0);
  let room = 0.05 * (axis.high - axis.low);
  if (room <= 0) room = axis.high === 0 ? 0.5 : 0.1 * Math.abs(axis.high);
  axis.high += room;
  if (!text.fromZero) axis.low = axis.low >= 0 ? Math.max(0, axis.low - room) : axis.low - room;
  if (text.percent) axis.high = Math.min(axis.high, 1);
  if (axis.high <= axis.low) axis.low = axis.high - room;
  return axis;
}

function marksOf(axis, most) {
  const marks = [];
  if (axis.logarithmic) {
    const first = Math.floor(Math.log10(axis.low)), last = Math.floor(Math.log10(axis.high));
    for (let power = first; power <= last; power += 1 + Math.floor((last - first) / 8)) {
      for (const factor of last - first > 3 ? [1] : [1, 2, 5]) {
        const mark = factor * 10 ** power;
        if (mark >= axis.low * 0.999 && mark <= axis.high * 1.001) marks.push(mark);
      }
    }
    return marks;
  }
  const rough = (axis.high - axis.low) / most, power = 10 ** Math.floor(Math.log10(rough));
  const step = ([1, 2, 5].find((factor) => factor * power >= rough) || 10) * power;
  for (let mark = Math.ceil(axis.low / step - 1e-9) * step; mark <= axis.high + step * 1e-6; mark += step) {
    marks.push(Math.abs(mark) < step * 1e-9 ? 0 : mark);
  }
  return marks;
}

// `series`: {name, colour, points, faint, markers}; `text`: {title, name, fromZero, percent}.
function lineChart(text, series) {
  const x = xAxis(series), y = yAxis(series, text);
  const label = (value) => text.percent ? number(100 * value) + ' %' : number(value);
  const svg = element('svg', {class: 'chart', viewBox: `0 0 ${chart.width} ${chart.height}`, role: 'img',
                              'aria-label': text.title});
  for (const mark of marksOf(y, 6)) {
    const at = place(y, mark);
    svg.append(element('line', {class: 'grid', x1: chart.left, x2: chart.right, y1: at, y2: at}),
               element('text', {class: 'tick end', x: chart.left - 8, y: at + 4}, label(mark)));
  }
  for (const mark of marksOf(x, 8)) {
    svg.append(element('text', {class: 'tick mid', x: place(x, mark), y: chart.bottom + 18}, number(mark, 6)));
  }
  svg.append(element('line', {class: 'axis', x1: chart.left, x2: chart.right, y1: chart.bottom, y2: chart.bottom}),
             element('text', {class: 'tick mid', x: (chart.left + chart.right) / 2, y: chart.height - 5}, 'epoch'));
  for (const one of series) {
    let path = '', open = false;  // a value that is no number leaves a gap
    for (const [at, value] of one.points) {
      if (drawn(value)) path += (open ? 'L' : 'M') + place(x, at).toFixed(2) + ' ' + place(y, value).toFixed(2);
      open = drawn(value);
    }
    svg.append(element('path', {class: `line s${one.colour}` + (one.faint ? ' faint' : ''), d: path}));
  }
  for (const one of series.filter((each) => each.markers)) {
    for (const [at, value] of one.points.filter((point) => drawn(point[1]))) {
      svg.append(element('circle', {class: `dot s${one.colour}`, cx: place(x, at), cy: place(y, value), r: 3.5},
                         element('title', {}, `${one.name} ${label(value)} (epoch ${number(at, 6)})`)));
    }
  }
  const key = (one) => [`key s${one.colour}` + (one.faint ? ' faint' : ''), one.name];
  return element('figure', {}, element('figcaption', {}, text.name + (y.logarithmic ? ', logarithmic' : '')),
                 series.length > 1 ? legend(series.map(key)) : '', svg);
}

const legend = (keys) => element('ul', {class: 'legend'}, keys.map(
    ([kind, name]) => element('li', {}, element('span', {class: kind}), name)));

// --- The header

function tiles() {
  const report = run.report, last = report.epochs[report.epochs.length - 1], shown = [];
  const known = (value) => value !== null && value !== undefined;
  if (known(report.final_test_accuracy)) shown.push([percent(report.final_test_accuracy, 2), 'final test accuracy']);
  if (last) {
    if (!known(report.final_test_accuracy) && known(last.test_accuracy)) {
      shown.push([percent(last.test_accuracy, 2), 'last test accuracy']);
    } else if (!known(report.final_test_accuracy) && known(last.test_loss)) {
      shown.push([number(last.test_loss), 'last test loss']);
    }
    shown.push([number(last.train_loss), 'last training loss'], [last.epoch, last.epoch === 1 ? 'epoch' : 'epochs']);
  }
  if (run.finished) {
    shown.push([duration(report.seconds_training), 'of training']);
    if (report.samples_per_second > 0) shown.push([withCommas(report.samples_per_second), 'samples a second']);
    shown.push([`${report.world_size} × ${withCommas(report.batch_size)}`,
                report.world_size === 1 ? 'rank × batch' : 'ranks × batch']);
  }
  return element('div', {class: 'tiles'}, shown.map(([value, name]) => element(
      'div', {class: 'tile'}, element('b', {}, value), element('span', {}, name))));
}

// When and where the run was started. An older run has not recorded it.
function facts() {
  const {started, host, cpu, cpus, version, command} = run.origin;
  const shown = [['started', started], ['host', host],
                 ['machine', [cpu, cpus && cpus + (cpus === '1' ? ' CPU' : ' CPUs')].filter(Boolean).join(', ')],
                 ['version', version && 'Tutti ' + version],
                 ['command', command && element('code', {}, command)]].filter(([, value]) => value);
  return shown.length === 0 ? '' : element('dl', {class: 'facts'}, shown.map(
      ([name, value]) => [element('dt', {}, name), element('dd', {}, value)]).flat());
}

function header() {
  const generated = run.report.generated_data ? ' · trained on generated data, no real pictures' : '';
  return [element('header', {}, element('h1', {}, run.title), element('p', {}, run.folder + generated), facts()),
          tiles(),
          run.remarks.length === 0 ? '' : element('div', {class: 'remarks'}, 'Not everything is here:', element(
              'ul', {}, run.remarks.map((remark) => element('li', {}, remark))))];
}

// --- Curves

function epochTable() {
  const text = (value, format) => value === null ? '' : format(value);
  const rows = run.report.epochs.map((epoch) => row([
    epoch.epoch, number(epoch.train_loss, 5), text(epoch.test_loss, (loss) => number(loss, 5)),
    text(epoch.test_accuracy, (share) => percent(share, 2)), duration(epoch.seconds)]));
  return element('details', {}, element('summary', {}, 'The epochs as a table'), element(
      'div', {class: 'scroll'}, element('table', {class: 'plain'}, row(
          ['epoch', 'train loss', 'test loss', 'test accuracy', 'training time'], 'th'), rows)));
}

function curves() {
  const epochs = run.report.epochs, markers = epochs.length <= 60;
  const byEpoch = (key) => epochs.map((epoch) => [epoch.epoch, epoch[key]]).filter((point) => point[1] !== null);
  const all = [
    {name: 'each step', colour: 0, points: run.curves.loss, faint: true},
    {name: 'training', colour: 0, points: byEpoch('train_loss'), markers},
    {name: 'test', colour: 1, points: byEpoch('test_loss'), markers}];
  const losses = all.filter((one) => one.points.length > 0);
  if (losses.length === 0) return section('curves', 'Curves', absent('Nothing was recorded of loss or accuracy.'));
  const charts = [lineChart({title: 'Loss by epoch', name: 'Loss'}, losses)];
  const accuracy = byEpoch('test_accuracy'), rate = run.curves.learning_rate;
  if (accuracy.length > 0) {
    charts.push(lineChart({title: 'Accuracy by epoch', name: 'Test accuracy', percent: true},
                          [{name: 'test accuracy', colour: 2, points: accuracy, markers}]));
  }
  if (rate.some((point) => point[1] !== rate[0][1])) {
    charts.push(lineChart({title: 'Learning rate', name: 'Learning rate', fromZero: true},
                          [{name: 'learning rate', colour: 3, points: rate}]));
  }
  return section('curves', 'Curves', element('div', {class: 'charts'}, charts), epochs.length > 0 ? epochTable() : '');
}

// --- Confusion matrix

const className = (label) => String((run.report.class_names || [])[label] ?? label);

function confusionCell(actual, predicted, count, total) {
  const share = total > 0 ? count / total : 0, right = actual === predicted;
  const depth = right ? share : Math.min(1, 4 * share);  // mistakes are rare: their colour deepens four times as fast
  const title = `${className(actual)} taken for ${className(predicted)}: ${withCommas(count)} (${percent(share)})`;
  const kind = (right ? 'right' : 'wrong') + (depth > 0.7 ? ' deep' : '') + (count === 0 ? ' none' : '');
  return element('td', {class: kind, style: `--d:${depth.toFixed(2)}`, title}, count);
}

function matrixTable(matrix) {
  const named = (run.report.class_names || []).length > 0;
  const head = matrix.map((_, label) => element('th', {scope: 'col', title: className(label)}, label));
  const rows = matrix.map((counts, actual) => {
    const total = counts.reduce((a, b) => a + b, 0);
    return element('tr', {}, element('th', {scope: 'row'}, (named ? className(actual) + ' ' : '') + actual),
                   counts.map((count, predicted) => confusionCell(actual, predicted, count, total)),
                   element('td', {class: 'share'}, total > 0 ? percent(counts[actual] / total) : ''));
  });
  return element('div', {class: 'scroll'}, element(
      'table', {class: 'confusion' + (matrix.length > 12 ? ' small' : '')},
      element('caption', {}, 'rows: actual class, columns: predicted class'),
      element('tr', {}, element('td'), head, element('th', {scope: 'col', class: 'share'}, 'right')), rows));
}

function mistakes(list) {
  if (list.length === 0) return element('p', {}, 'No test sample was taken for another class.');
  const texts = list.flatMap(({actual, predicted, count}, i) => [
    i > 0 ? '; ' : '', element('b', {}, className(actual)), ' was taken for ', element('b', {}, className(predicted)),
    count === 1 ? ' once' : `, ${withCommas(count)} times`]);
  return element('p', {}, 'Most frequent mistakes: ', texts, '.');
}

function confusion() {
  const title = 'Confusion matrix', {classes, mistakes: list} = run.confusion, matrix = run.report.confusion_matrix;
  if (classes === 0) {
    return section('confusion', title, absent(run.finished
        ? 'The model does not classify, so there is none.'
        : 'It is counted at the end of a run, which this one has not reached.'));
  }
  const body = matrix ? matrixTable(matrix)
                      : absent(`There are ${withCommas(classes)} classes; report.json has the whole matrix.`);
  return section('confusion', title, body, mistakes(list));
}

// --- Strips: a row for each rank, over the time of the run

const strip = {left: 44, width: 886, row: 16};

function stripFigure(caption, title, height, from, to, marks) {
  return element('figure', {}, element('figcaption', {}, caption), element('div', {class: 'scroll'}, element(
      'svg', {class: 'strip', viewBox: `0 0 932 ${height + 20}`, role: 'img', 'aria-label': title}, marks,
      element('text', {class: 'tick', x: 44, y: height + 14}, from),
      element('text', {class: 'tick end', x: 930, y: height + 14}, to))));
}

const rankLabel = (rank, y) => element('text', {class: 'tick end', x: 36, y: y + 12}, rank);

// `rows`: [{rank, values}]; opacity(value) is 0 where there is nothing to draw.
function heatMap(rows, opacity, tell) {
  return rows.flatMap(({rank, values}, i) => {
    const y = i * (strip.row + 2), width = strip.width / values.length;
    const cells = values.map((value, column) => opacity(value) <= 0 ? '' : element(
        'rect', {class: 'heat', x: strip.left + width * column, y, width, height: strip.row,
                 'fill-opacity': opacity(value).toFixed(2)}, element('title', {}, `rank ${rank}: ${tell(value)}`)));
    return [rankLabel(rank, y), ...cells];
  });
}

// --- Step times by rank

function verdict(times) {
  const stragglers = times.ranks.filter((rank) => rank.straggler).map((rank) => element(
      'p', {class: 'warning'}, element('b', {}, `Rank ${rank.rank} is a straggler`),
      `: of a step it takes ${duration(rank.own_usual)} for itself (mean without the slowest hundredth), ` +
      `${number(rank.slowdown, 3)} times what the other ranks take, and it was the slowest in ` +
      `${percent(rank.last_share, 0)} of the steps.`));
  if (stragglers.length === 0 && times.count > 1) {
    stragglers.push(element('p', {class: 'good'}, `No straggler: no rank takes more than ` +
                            `${number(times.straggler_from, 3)} times what the others take for a step.`));
  }
  const slow = times.slow_steps.map((step) => `rank ${step.rank}, epoch ${step.epoch}, step ${step.step}: ` +
                                    `${duration(step.own_seconds)} instead of ${duration(step.usual_seconds)}`);
  if (slow.length === 0) return stragglers;
  return [...stragglers, element('p', {}, 'Single steps that took far longer than usual: ' + slow.join('; ') + '.')];
}

function bar(kind, share) {
  return element('span', {class: 'bar ' + kind, style: `width:${(100 * share).toFixed(2)}%`});
}

function barTable(names, rows) {
  return element('div', {class: 'scroll'}, element('table', {class: 'plain bars'}, element(
      'tr', {}, names.map((name) => element('th', {}, name)), element('th', {class: 'wide'})), rows));
}

function rankBars(shown) {
  const longest = Math.max(...shown.map((rank) => rank.seconds));
  if (longest <= 0) return '';
  const rows = shown.map((rank) => {
    const own = rank.seconds - rank.wait_seconds;
    const cells = [duration(rank.seconds), duration(own), duration(rank.wait_seconds),
                   shown.length > 1 ? percent(rank.last_share, 0) : ''].map((text) => element('td', {}, text));
    return element('tr', rank.straggler ? {class: 'straggler'} : {}, element('th', {scope: 'row'}, rank.rank), cells,
                   element('td', {class: 'wide'}, bar('s0', own / longest), bar('s1', rank.wait_seconds / longest)));
  });
  return [legend([['key box s0', 'own work'], ['key box s1', 'waiting for gradients of others']]),
          barTable(['rank', 'mean step', 'own work', 'waiting', 'slowest in'], rows)];
}

function slownessMap(times, shown) {
  const medians = shown.map((rank) => rank.own_median).sort((a, b) => a - b);
  const usual = medians[Math.floor(medians.length / 2)];
  if (!(usual > 0) || times.last_step <= times.first_step) return '';
  const rows = shown.map((rank) => ({rank: rank.rank, values: rank.map}));
  const opacity = (own) => own > 0 ? Math.min(1, Math.max(0.06, (own / usual - 0.8) / 1.2)) : 0;
  return stripFigure(
      'Own work per step, rank by rank over the run: the stronger the colour, the slower', 'Own work per step by rank',
      rows.length * (strip.row + 2), 'step ' + withCommas(times.first_step), 'step ' + withCommas(times.last_step),
      heatMap(rows, opacity, (own) => `${duration(own)}, ${number(own / usual, 3)} times the usual`));
}

function ranks() {
  const times = run.ranks, shown = times.ranks.filter((rank) => rank.map);
  if (times.count === 0) return section('ranks', 'Step times', absent('No rank has recorded its steps.'));
  const note = shown.length === times.count
      ? '' : element('p', {}, `Shown are the ${shown.length} slowest of ${times.count} ranks.`);
  return section('ranks', 'Step times by rank', verdict(times), note, rankBars(shown),
                 slownessMap(times, shown));
}

// --- Overlap of communication

function buckets() {
  const title = 'Overlap of communication', {list, step_seconds: step} = run.buckets;
  if (list.length === 0) {
    return section('buckets', title, absent(run.finished && run.report.world_size === 1
        ? 'A single rank exchanges no gradients.' : 'No buckets of gradients were recorded (buckets.json).'));
  }
  const sum = (key) => list.reduce((total, bucket) => total + bucket[key], 0);
  const waited = sum('wait_seconds');
  const backward = Math.max(...list.map((bucket) => bucket.start_seconds));  // ends when the last bucket is complete
  const scale = Math.max(backward + waited, 1e-12), most = 100;
  let before = 0;
  // From left to right: nothing until the bucket is complete, its way while backward goes on, nothing while the buckets
  // before it are waited for, and what is waited for itself.
  const rows = list.slice(0, most).map((bucket, i) => {
    const bars = [bar('blank', bucket.start_seconds / scale), bar('s0 light', (backward - bucket.start_seconds) / scale),
                  bar('blank', before / scale), bar('s1', bucket.wait_seconds / scale)];
    before += bucket.wait_seconds;
    const cells = [bytes(bucket.bytes), duration(bucket.start_seconds),
                   bucket.wait_seconds > 0 ? duration(bucket.wait_seconds) : 'none'];
    return element('tr', {}, element('th', {scope: 'row'}, i), cells.map((text) => element('td', {}, text)),
                   element('td', {class: 'wide'}, bars));
  });
  const text = `${bytes(sum('bytes'))} of gradients travel in ${list.length} ` +
      (list.length === 1 ? 'bucket' : 'buckets') + ` a step. After its own backward rank 0 waited ${duration(waited)} ` +
      'for them on average' + (step > 0 ? `, ${percent(waited / step)} of a step.` : '.');
  return section('buckets', title, element('p', {}, text),
                 list.length > most ? element('p', {}, `The first ${most} are listed.`) : '',
                 legend([['key box s0 light', 'complete and on its way while backward goes on'],
                         ['key box s1', 'waited for after backward']]),
                 barTable(['bucket', 'size', 'sent after', 'waited'], rows));
}

// --- Messages

function closeUp(trace) {
  const begin = trace.window_begin_us, end = trace.window_end_us, messages = trace.has_messages;
  const height = messages ? 2 * strip.row + 6 : strip.row + 4;
  const at = (us) => strip.left + strip.width * (us - begin) / (end - begin);
  const marks = trace.ranks.flatMap(({rank}, i) => [rankLabel(rank, i * height), element(
      'rect', {class: 'lane', x: strip.left, y: i * height - 1, width: strip.width, height: height - 4})]);
  // The most frequent operations have colours of their own, the rest share the last one.
  const colour = (name) => Math.min(7, trace.names.indexOf(name));
  for (const span of trace.spans) {
    const from = at(Math.max(begin, span.start_us)), to = at(Math.min(end, span.start_us + span.duration_us));
    const title = `rank ${span.rank}: ${span.detail}, ${duration(span.duration_us / 1e6)} from ` +
        `${number(span.start_us / 1e3, 8)} ms`;
    const lane = trace.ranks.findIndex(({rank}) => rank === span.rank) * height;
    marks.push(element('rect', {class: `s${colour(span.name)}`, x: from, y: lane + (span.is_message ? strip.row : 0),
                                width: Math.max(0.6, to - from), height: strip.row - 2}, element('title', {}, title)));
  }
  const seen = trace.names.filter((name) => trace.spans.some((span) => span.name === name));
  const figure = stripFigure(
      `From the middle of the run, ${duration((end - begin) / 1e6)} long` +
      (messages ? "; below each rank's collectives its messages" : ''), 'Timeline of operations',
      trace.ranks.length * height, number(begin / 1e3, 6) + ' ms', number(end / 1e3, 6) + ' ms', marks);
  figure.insertBefore(legend(seen.map((name) => [`key box s${colour(name)}`, name])), figure.lastChild);
  return figure;
}

function timeline() {
  const trace = run.trace;
  if (!trace) {
    return section('timeline', 'Messages', absent('No trace: ', element('code', {}, 'tutti train --trace FILE'),
                                                  ' writes one.'));
  }
  const rows = trace.ranks.map(({rank, busy}) => ({rank, values: busy}));
  const overview = trace.end_us <= 0 ? '' : stripFigure(
      'The whole run: share of the time in collectives, rank by rank', 'Share of time in collectives',
      rows.length * (strip.row + 2), '0 s', duration(trace.end_us / 1e6),
      heatMap(rows, (share) => share < 0.005 ? 0 : Math.max(0.04, share),
              (share) => percent(share, 0) + ' in collectives'));
  return section('timeline', 'Messages', element(
      'p', {}, `${withCommas(trace.count)} operations were traced. The whole trace opens in `,
      element('code', {}, 'ui.perfetto.dev'), '.'), overview, closeUp(trace));
}

// --- Options and log

function optionsAndLog() {
  const options = Object.entries(run.options), body = [];
  if (options.length > 0) {
    body.push(element('details', {}, element('summary', {}, 'Options'), element('div', {class: 'scroll'}, element(
        'table', {class: 'plain options'}, row(['option', 'value'], 'th'), options.map((option) => row(option))))));
  }
  if (run.log.length > 0) {
    body.push(element('details', {}, element('summary', {}, 'The last lines of the log'),
                      element('pre', {}, run.log.join('\n') + '\n')));
  }
  if (run.report.parameter_sha256) {
    body.push(element('p', {class: 'small-text'}, 'sha256 of the final parameters: ',
                      element('code', {}, run.report.parameter_sha256)));
  }
  return body.length === 0 ? '' : section('options', 'Options and log', ...body);
}

document.querySelector('main').replaceChildren(
    ...[header(), curves(), confusion(), ranks(), buckets(), timeline(), optionsAndLog()].flat().filter((part) => part));
