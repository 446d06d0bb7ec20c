"use strict";
/* Values under the pointer, or where the arrow keys went, for every chart. */
(function () {
	const SVG = "http://www.w3.org/2000/svg";

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

	function make(parent, name, attributes) {
		const e = document.createElementNS(SVG, name);
		for (const key in attributes)
			e.setAttribute(key, attributes[key]);
		parent.appendChild(e);
		return e;
	}

	function chart(figure) {
		const data = JSON.parse(document.getElementById("data-" + figure.id).textContent);
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

		const bend = v => data.xlog ? Math.log(v) : v;
		const [first, last] = data.x.map(bend);
		const toX = v => left + (right - left) * (bend(v) - first) / (last - first);
		function toY(v) {
			const log = logswitch && logswitch.checked, [lo, hi] = log ? data.log : data.lin;
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
				const i = nearest(line.x, x), y = toY(line.y[i]);
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

		function pointed(event) {
			const box = svg.getBoundingClientRect();
			const px = (event.clientX - box.left) * svg.viewBox.baseVal.width / box.width;
			const bent = first + (px - left) / (right - left) * (last - first);
			const x = data.xlog ? Math.exp(bent) : bent;
			show(nearest(all, x), false);
		}

		function key(event) {
			const end = all.length - 1, step = event.shiftKey ? 10 : 1;
			const to = { ArrowRight: Math.min(at + step, end), ArrowLeft: Math.max(at - step, 0),
				Home: 0, End: end }[event.key];
			if (event.key === "Escape")
				hide();
			if (to === undefined)
				return;
			event.preventDefault();
			show(to, true);
		}

		svg.addEventListener("pointermove", pointed);
		svg.addEventListener("pointerdown", pointed);
		svg.addEventListener("pointerleave", hide);
		svg.addEventListener("keydown", key);
		svg.addEventListener("blur", hide);
		if (logswitch)
			logswitch.addEventListener("change", hide);
	}

	document.querySelectorAll(".chart").forEach(chart);
	document.documentElement.dataset.ready = "yes";
})();
