"use strict";
/* For every chart: values under the pointer or where the arrow keys went, and a stretch of it at full width. */
(function () {
	const SVG = "http://www.w3.org/2000/svg", CONTROLS = [".plot", ".logswitch", "button"];

	function number(v) {
		const a = Math.abs(v);
		if (v !== 0 && (a < 1e-3 || a >= 1e7))
			return v.toExponential(3);
		return String(Number(v.toPrecision(a >= 1e4 ? 6 : 4)));
	}

	/* The place of the value nearest to x. */
	function nearest(xs, x) {
		let lo = 0, hi = xs.length - 1;
		while (hi - lo > 1) {
			const mid = (lo + hi) >> 1;
			if (xs[mid] < x)
				lo = mid;
			else
				hi = mid;
		}
		return x - xs[lo] <= xs[hi] - x ? lo : hi;
	}

	/* As chart_ticks() in chart.c. */
	function ticks(lo, hi, log) {
		const list = [], rough = (hi - lo) / 5, power = 10 ** Math.floor(Math.log10(rough));
		const part = rough / power, decades = Math.log10(hi / lo);
		const step = power * (part < 1.5 ? 1 : part < 3.5 ? 2 : part < 7.5 ? 5 : 10);
		if (!log || decades < 0.7) {
			for (let i = Math.ceil(lo / step - 1e-9); i * step <= hi + 1e-9 * step; i++)
				list.push(i * step);
			return list;
		}
		const each = decades <= 1.7 ? [1, 2, 5] : decades <= 3.4 ? [1, 3] : [1];
		const every = decades > 8 ? Math.ceil(decades / 8) : 1;
		for (let e = Math.floor(Math.log10(lo)); e <= Math.ceil(Math.log10(hi)); e += every)
			list.push(...each.map(v => v * 10 ** e).filter(v => v >= lo && v <= hi));
		return list;
	}

	function short(v) {
		const [unit, name] = [[1e9, " G"], [1e6, " M"], [1, ""]].find(u => Math.abs(v) >= 10 * u[0]) || [1, ""];
		return Number((v / unit).toPrecision(6)) + name;
	}

	function make(parent, name, attributes) {
		const e = document.createElementNS(SVG, name);
		for (const key in attributes)
			e.setAttribute(key, attributes[key]);
		parent.appendChild(e);
		return e;
	}

	/* Prepare a figure; seen is what seen() said of the one before it, or undefined. */
	function chart(figure, seen) {
		const data = JSON.parse(figure.querySelector("script").textContent);
		const svg = figure.querySelector(".plot");
		const logswitch = figure.querySelector(".logswitch");
		const [left, top, right, bottom] = data.box;
		const all = Array.from(new Set(data.lines.flatMap(l => l.x))).sort((a, b) => a - b);
		const tip = document.createElement("div");
		const spoken = document.createElement("p");
		let group = null, at = -1;

		tip.className = "tip";
		tip.hidden = true;
		spoken.className = "hidden";
		spoken.setAttribute("aria-live", "polite");
		figure.append(tip, spoken);

		const bend = v => data.xlog ? Math.log(v) : v, unbend = v => data.xlog ? Math.exp(v) : v;
		/* What is shown: x is bent. */
		const full = { x: data.x.map(bend), lin: data.lin, log: data.log };
		let view = full;
		const toX = (v, w = view) => left + (right - left) * (bend(v) - w.x[0]) / (w.x[1] - w.x[0]);
		const fromX = px => view.x[0] + (px - left) / (right - left) * (view.x[1] - view.x[0]);
		const isLog = () => Boolean(logswitch && logswitch.checked);
		function toY(v, log, w = view) {
			const [lo, hi] = log ? w.log : w.lin;
			if (log && v <= 0)
				return NaN;
			const share = log ? Math.log(v / lo) / Math.log(hi / lo) : (v - lo) / (hi - lo);
			return bottom - (bottom - top) * share;
		}

		function row(color, words, value) {
			const line = document.createElement("div"), dot = document.createElement("span");
			const b = document.createElement("b");
			dot.className = "dot c" + color;
			b.textContent = value;
			line.append(dot, words + " ", b);
			tip.append(line);
		}

		function hide() {
			if (group)
				group.remove();
			group = null;
			tip.hidden = true;
			at = -1;
		}

		function show(index, speak) {
			const x = all[index], words = [];
			hide();
			at = index;
			group = make(svg, "g", { "class": "hover" });
			make(group, "path", { "class": "cursor", d: `M${toX(x)} ${top}V${bottom}` });
			tip.replaceChildren();
			const head = document.createElement("div");
			head.textContent = data.xname + " " + number(x);
			tip.append(head);
			for (const line of data.lines) {
				const i = nearest(line.x, x), y = toY(line.y[i], isLog());
				const value = number(line.y[i]) + (data.unit ? " " + data.unit : "");
				const name = line.what ? line.name + " (" + line.what + ")" : line.name;
				if (x < line.x[0] || x > line.x[line.x.length - 1])
					continue;
				if (!isNaN(y))
					make(group, "circle", { "class": "mark c" + line.color, r: 4,
						cx: toX(line.x[i]), cy: y });
				row(line.color, name, value);
				words.push(name + " " + value);
			}
			place(toX(x));
			if (speak)
				spoken.textContent = head.textContent + ": " + words.join(", ");
		}

		/* Beside the line, on the side where there is room. */
		function place(x) {
			const box = svg.getBoundingClientRect(), outer = figure.getBoundingClientRect();
			const px = box.left - outer.left + x * box.width / svg.viewBox.baseVal.width;
			tip.hidden = false;
			tip.style.top = box.top - outer.top + 8 + "px";
			tip.style.left = "0";
			const room = px > outer.width / 2 ? px - tip.offsetWidth - 12 : px + 12;
			tip.style.left = Math.max(4, Math.min(room, outer.width - tip.offsetWidth - 4)) + "px";
		}

		/* --- zooming ----------------------------------------------------------------- */

		/* The range of the values that are seen between two places, or on the way to them. */
		function range(x, log) {
			let lo = Infinity, hi = -Infinity;
			for (const line of data.lines) {
				const first = line.x.findIndex(v => bend(v) >= x[0]);
				const end = line.x.findIndex(v => bend(v) > x[1]);
				const seen = first < 0 ? [] : line.y.slice(Math.max(first - 1, 0), end < 0 ? undefined : end + 1);
				for (const v of seen.filter(v => !log || v > 0)) {
					lo = Math.min(lo, v);
					hi = Math.max(hi, v);
				}
			}
			if (lo > hi)
				return log ? full.log : full.lin;
			if (log)
				return [lo / 1.1, hi * 1.1];
			const room = hi > lo ? 0.04 * (hi - lo) : Math.abs(hi) / 2 || 1;
			return [lo - room, hi + room];
		}

		function drawTicks() {
			const x = svg.querySelector("g.x");
			x.replaceChildren();
			for (const v of ticks(unbend(view.x[0]), unbend(view.x[1]), data.xlog)) {
				make(x, "path", { "class": "base", d: `M${toX(v)} ${bottom}v4` });
				make(x, "text", { x: toX(v), y: bottom + 18, "text-anchor": "middle" }).textContent = short(v);
			}
		}

		/* A drawing's lines are moved and stretched: what is straight stays so, with logarithms, too. */
		function drawLines(drawing, log) {
			const [xa, xb] = view.x.map(v => toX(unbend(v), full));
			const [yb, ya] = (log ? view.log : view.lin).map(v => toY(v, log, full));
			const kx = (right - left) / (xb - xa), ky = (bottom - top) / (yb - ya);
			const y = drawing.querySelector("g.y");
			y.replaceChildren();
			for (const v of ticks(...(log ? view.log : view.lin), log)) {
				make(y, "path", { "class": "grid", d: `M${left} ${toY(v, log)}H${right}` });
				make(y, "text", { x: left - 7, y: toY(v, log) + 4, "text-anchor": "end" }).textContent = short(v);
			}
			drawing.querySelector(".lines").setAttribute("clip-path", `url(#clip-${figure.id})`);
			for (const line of drawing.querySelectorAll(".line"))
				line.setAttribute("transform", `matrix(${kx} 0 0 ${ky} ${left - kx * xa} ${top - ky * ya})`);
			for (const dot of drawing.querySelectorAll("circle")) {
				const at = dot.dataset.at ? JSON.parse(dot.dataset.at) : [dot.cx.baseVal.value, dot.cy.baseVal.value];
				dot.dataset.at = JSON.stringify(at);
				dot.setAttribute("cx", left + kx * (at[0] - xa));
				dot.setAttribute("cy", top + ky * (at[1] - ya));
			}
		}

		function look(at) {
			hide();
			view = at;
			whole.hidden = view === full;
			drawTicks();
			for (const drawing of svg.querySelectorAll(".lin, .log"))
				drawLines(drawing, drawing.classList.contains("log"));
		}

		/* Show what lies between two places, unless it is next to nothing. */
		function zoom(x) {
			const shown = all.filter(v => bend(v) >= x[0] && bend(v) <= x[1]);
			if (shown.length > 1)
				look({ x, lin: range(x, false), log: data.log && range(x, true) });
		}

		const whole = document.createElement("button");
		whole.type = "button";
		whole.textContent = "show all";
		whole.hidden = true;
		whole.addEventListener("click", () => look(full));
		svg.before(whole);
		make(make(svg, "clipPath", { id: "clip-" + figure.id }), "rect",
			{ x: left, y: top - 2, width: right - left, height: bottom - top + 4 });

		/* --- pointer and keys -------------------------------------------------------- */

		let began = null, band = null;

		function across(event) {
			const box = svg.getBoundingClientRect();
			return (event.clientX - box.left) * svg.viewBox.baseVal.width / box.width;
		}

		/* The places of all values between the ends of the view. */
		function inView() {
			return [...all.keys()].filter(i => bend(all[i]) >= view.x[0] && bend(all[i]) <= view.x[1]);
		}

		function pointed(event) {
			const places = inView(), x = unbend(fromX(across(event)));
			if (places.length)
				show(places[nearest(places.map(i => all[i]), x)], false);
		}

		function down(event) {
			if (event.button === 0 && event.pointerType !== "touch") {
				began = across(event);
				svg.setPointerCapture(event.pointerId);
			}
			pointed(event);
		}

		function stretch(event) {
			return [began, across(event)].map(v => Math.max(left, Math.min(v, right))).sort((a, b) => a - b);
		}

		function move(event) {
			if (began === null || Math.abs(across(event) - began) < 5) {
				pointed(event);
				return;
			}
			const [a, b] = stretch(event);
			hide();
			band = band || make(svg, "rect", { "class": "band", y: top, height: bottom - top });
			band.setAttribute("x", a);
			band.setAttribute("width", b - a);
		}

		function up(event) {
			const x = band && event.type === "pointerup" ? stretch(event).map(fromX) : null;
			if (band)
				band.remove();
			began = band = null;
			if (x)
				zoom(x);
		}

		function key(event) {
			const places = inView(), now = places.indexOf(at), step = event.shiftKey ? 10 : 1;
			const end = places.length - 1;
			const to = places[{ ArrowRight: Math.min(now + step, end), ArrowLeft: Math.max(now - step, 0),
				Home: 0, End: end }[event.key]];
			if (event.key === "Escape")
				look(full);
			if (event.key === "+") {
				const middle = at < 0 ? (view.x[0] + view.x[1]) / 2 : bend(all[at]);
				const half = (view.x[1] - view.x[0]) / 4;
				zoom([Math.max(middle - half, view.x[0]), Math.min(middle + half, view.x[1])]);
			}
			if (to === undefined)
				return;
			event.preventDefault();
			show(to, true);
		}

		svg.addEventListener("pointermove", move);
		svg.addEventListener("pointerdown", down);
		svg.addEventListener("pointerup", up);
		svg.addEventListener("pointercancel", up);
		svg.addEventListener("dblclick", () => look(full));
		svg.addEventListener("pointerleave", hide);
		svg.addEventListener("keydown", key);
		svg.addEventListener("blur", hide);
		if (logswitch)
			logswitch.addEventListener("change", hide);

		/* The stretch, axis, value and control in use, for a figure that comes in place of this one. */
		figure.seen = () => ({ x: view === full ? null : view.x.map(unbend), at: at < 0 ? null : all[at],
			log: isLog(), focus: CONTROLS.find(c => figure.querySelector(c) === document.activeElement) });
		if (!seen)
			return;
		if (logswitch)
			logswitch.checked = seen.log;
		if (seen.x)
			zoom(seen.x.map(bend));
		if (seen.focus)
			figure.querySelector(seen.focus)?.focus({ preventScroll: true });
		if (seen.at !== null)
			show(nearest(all, seen.at), false);
	}

	/* Prepare the figures below root. Where fresh comes in place of all below root, its figures go on with
	   what was seen of those with the same id. */
	window.reportCharts = function (root, fresh) {
		const before = new Map();
		for (const figure of fresh ? root.querySelectorAll(".chart") : [])
			before.set(figure.id, figure.seen());
		if (fresh)
			root.replaceChildren(fresh);
		for (const figure of root.querySelectorAll(".chart"))
			chart(figure, before.get(figure.id));
	};

	window.reportCharts(document);
	document.documentElement.dataset.ready = "yes";
})();
