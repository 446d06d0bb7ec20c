"use strict";
/* The page of mlrun web: each hash route is a view, which fills <main> from the template of its name. */
const ROWS_MAX = 60, BLOCK = 100, LINES_MAX = 2000, PART = 65536, TILES_MAX = 24, COLUMNS_MAX = 40;
const ODD = new RegExp("[\\0-\\x1f\\x7f-\\x9f\\xad\\u061c\\u200b-\\u200f\\u2028-\\u202e\\u2060-\\u206f\\ufeff]" +
	"|\\p{Surrogate}", "gu");
const TOKEN = "mlrun-web" + location.pathname, SCHEME = "mlrun-web-scheme", SENT = TOKEN + " form";
const byId = (id) => document.getElementById("w-" + id);
let me = null, view = null, skew = 0;

/* --- text and elements ---------------------------------------------------------------------- */

/* What cannot be seen, or turns the order of what stands beside it, as an escape. */
const escaped = (c) => "\\u{" + c.codePointAt(0).toString(16) + "}";
const visible = (s) => String(s).replace(ODD, escaped);
const visibleLines = (s) => String(s).replace(ODD, (c) => c === "\n" || c === "\t" ? c : escaped(c));

/* An element with properties, attributes and listeners; what is inside is text or nodes. */
function el(name, given = {}, ...inside) {
	const e = document.createElement(name);
	for (const [key, value] of Object.entries(given))
		if (typeof value === "function")
			e.addEventListener(key, value);
		else if (key in e && key !== "list")
			e[key] = value;
		else
			e.setAttribute(key, value);
	e.append(...inside);
	return e;
}

const bdi = (s) => el("bdi", { textContent: visible(s) });
const now = () => Date.now() / 1000 + skew;
const count = (n) => Number(n).toLocaleString("en").replaceAll(",", "\u202f");

function number(v) {
	const a = Math.abs(v);
	if (typeof v !== "number")
		return v === null || v === undefined ? "–" : visible(v);
	return v !== 0 && (a < 1e-3 || a >= 1e7) ? v.toExponential(3) : String(Number(v.toPrecision(a >= 1e4 ? 6 : 4)));
}

function duration(s) {
	const two = (n) => String(Math.floor(n)).padStart(2, "0");
	if (s === null || !(s >= 0))
		return "–";
	return s < 99.95 ? (s < 9.95 ? s.toFixed(1) : Math.round(s)) + " s"
		: s < 3600 ? `${Math.floor(s / 60)} min ${two(s % 60)} s`
			: s < 86400 ? `${Math.floor(s / 3600)} h ${two(s / 60 % 60)} min`
				: `${Math.floor(s / 86400)} d ${Math.floor(s / 3600 % 24)} h`;
}

function size(n) {
	const unit = n > 0 ? Math.min(4, Math.floor(Math.log2(n) / 10)) : 0;
	return unit ? (n / 1024 ** unit).toPrecision(3) + " " + " KMGT"[unit] + "iB" : n + " B";
}

/* A time in the reader's zone; the title says it in UTC. */
function time(s) {
	const d = new Date(s * 1000), format = { dateStyle: "medium", timeStyle: "short" };
	if (s === null || isNaN(d))
		return "–";
	return el("time", { dateTime: d.toISOString(), title: d.toISOString().replace("T", " ").replace(/\..*/, " UTC"),
		textContent: d.toLocaleString("en-GB", format) });
}

const STATES = ["waiting", "running", "succeeded", "failed", "stopped", "lost"];
const badge = (run) => el("span", { className: "state " + (STATES.find((s) => s === run.state) || "unknown") },
	visible(run.state));
const isAlive = (run) => run.state === "running" || run.state === "waiting";
const lasted = (run) => duration(run.started === null ? null :
	(run.ended ?? (isAlive(run) ? now() : run.changed)) - run.started);
const progressText = (run) => run.progress === null ? "–" : Math.round(100 * run.progress) + " %" +
	(run.left !== null && isAlive(run) ? ", " + duration(run.left) + " left" : "");

function progress(run) {
	const box = el("span", { className: "progress" });
	if (run.progress !== null)
		box.append(el("progress", { max: 1, value: run.progress, "aria-label": "progress" }), " ");
	box.append(progressText(run));
	return box;
}

/* Replace what an element shows, unless it shows that already. */
function put(e, text, node) {
	if (e.was === text)
		return;
	e.was = text;
	e.replaceChildren(node ? node() : text);
}

function table(caption, heads, rows) {
	const head = el("tr", {}, ...heads.map((h) => el("th", { scope: "col", textContent: h })));
	const cells = (row) => row.map((c, i) => i ? el("td", {}, c) : el("th", { scope: "row" }, c));
	if (!rows.length)
		return el("p", { className: "about", textContent: caption + ": none." });
	return el("div", { className: "scroll", tabIndex: 0, role: "region", "aria-label": caption },
		el("table", {}, el("caption", { textContent: caption }), el("thead", {}, head),
			el("tbody", {}, ...rows.map((row) => el("tr", {}, ...cells(row))))));
}

function facts(pairs) {
	return el("dl", { className: "facts" }, ...pairs.map(([name, value]) =>
		el("div", {}, el("dt", { textContent: visible(name) }), el("dd", {}, value))));
}

/* Fill <main> from a template, without what a reader may not do. */
function fill(name) {
	const main = byId("main");
	main.replaceChildren(document.getElementById("page-" + name).content.cloneNode(true));
	if (!me || me.read_only)
		document.querySelectorAll(".act").forEach((e) => e.remove());
	return main;
}

function title(text) {
	document.title = (text ? visible(text) + " · " : "") + "mlrun web";
}

function problem(error) {
	const box = byId("problem");
	if (!box || error?.name === "AbortError" || error?.status === 401)
		return;
	put(box, error ? error.message + (error.hint || "") : "", () => error ? el("div", {},
		el("p", { className: "bad", textContent: visibleLines(error.message) }),
		error.hint ? el("p", { className: "about", textContent: visibleLines(error.hint) }) : "") : "");
}

function notes(list) {
	byId("notes").hidden = !list.length;
	put(byId("notes"), list.join("\n"), () => {
		const all = document.createDocumentFragment();
		all.append(...list.slice(0, 100).map((n) => el("li", {}, bdi(n))));
		return all;
	});
}

const say = (text) => { byId("said").textContent = visible(text); };

/* Ask in the page; resolves to whether the answer is yes. */
function sure(text, yes) {
	const box = byId("sure");
	byId("sure-text").replaceChildren(bdi(text));
	box.querySelector("[value=yes]").textContent = yes;
	box.returnValue = "no";
	box.showModal();
	return new Promise((done) => box.addEventListener("close", () => done(box.returnValue === "yes"), { once: true }));
}

/* --- the server ----------------------------------------------------------------------------- */

const memory = new Map();  /* where the browser refuses to store anything */
const store = (kind, key, value) => {
	try {
		const place = window[kind + "Storage"];
		return value === undefined ? place.getItem(key) : value === null ? place.removeItem(key)
			: place.setItem(key, value);
	} catch {
		return value === undefined ? memory.get(key) ?? null : memory.set(key, value);
	}
};

async function ask(path, given = {}) {
	const headers = { ...given.headers }, token = store("local", TOKEN);
	if (token)
		headers.Authorization = "Bearer " + token;
	if (given.body)
		headers["Content-Type"] = "application/json";
	const reply = await fetch("api/v1/" + path, { headers, signal: given.signal, cache: "no-store",
		method: given.body ? "POST" : "GET", body: given.body && JSON.stringify(given.body) }).catch((e) => {
		throw e.name === "AbortError" ? e : new Error("The server does not answer: " + e.message);
	});
	const clock = Date.parse(reply.headers.get("Date"));
	if (Math.abs(clock / 1000 - now()) > 2)
		skew = (clock - Date.now()) / 1000;
	if (reply.ok)
		return given.raw ? reply : reply.json();
	const said = await reply.json().catch(() => ({}));
	if (reply.status === 401 && !given.key)
		sign();
	throw Object.assign(new Error(said.detail || said.title || "The server answers " + reply.status), said,
		{ status: reply.status });
}

/* Exchange a link's key for a token. */
async function enter(key) {
	store("local", TOKEN, null);
	store("local", TOKEN, (await ask("session", { body: { key }, key: true })).token);
}

function sign(why) {
	store("local", TOKEN, null);
	view?.leave?.();
	view = me = null;
	disconnect();
	fill("sign");
	title("Sign in");
	if (why)
		byId("sign-why").textContent = why;
	byId("sign").addEventListener("submit", async (e) => {
		e.preventDefault();
		const key = /#k=([^&\s]+)/.exec(byId("link").value) || [0, byId("link").value.trim()];
		await enter(key[1]).then(begin, problem);
	});
	byId("link").focus();
}

/* --- the stream ----------------------------------------------------------------------------- */

let link = null, timer = 0, pause = 1, lastId = null, polls = 0;

const connection = (text) => { byId("broken").textContent = text; };

function disconnect() {
	clearTimeout(timer);
	link?.abort();
	link = null;
}

/* Open the stream of this view in place of the one before; what was missed is asked for. */
async function connect() {
	disconnect();
	if (!view?.events || document.hidden)
		return;
	const mine = link = new AbortController(), headers = lastId === null ? {} : { "Last-Event-ID": lastId };
	let busy = false;
	try {
		const reply = await ask("events" + view.events(), { headers, raw: true, signal: mine.signal });
		connection("");
		view.refresh();
		await listen(reply.body.pipeThrough(new TextDecoderStream()).getReader(), mine);
	} catch (e) {
		busy = e.status === 429;
	}
	if (mine !== link)
		return;
	connection(busy ? "Many pages are open: this one asks every five seconds." : "not connected, trying again");
	timer = setTimeout(busy ? poll : connect, busy ? 5000 : 1000 * pause);
	pause = Math.min(2 * pause, 30);
}

/* Ask in place of listening; each sixth time the stream is tried again. */
function poll() {
	if (++polls % 6 === 0)
		return connect();
	(view.poll || view.refresh).call(view);
	timer = setTimeout(poll, 5000);
}

async function listen(reader, mine) {
	for (let text = ""; ;) {
		const dead = setTimeout(() => mine.abort(), 40000);
		const { done, value } = await reader.read().finally(() => clearTimeout(dead));
		if (done)
			return;
		pause = 1;
		const parts = (text + value).split(/\r?\n\r?\n/);
		text = parts.pop();
		for (const part of parts)
			if (mine === link)
				hear(part);
	}
}

function hear(part) {
	const field = (name) => part.split(/\r?\n/).filter((l) => l.startsWith(name + ":"))
		.map((l) => l.slice(name.length + 1).replace(/^ /, "")).join("\n");
	const event = field("event"), id = field("id");
	if (id)
		lastId = id;
	if (event === "runs" || event === "log" || event === "charts")
		view[event]?.(JSON.parse(field("data")));
}

/* --- runs ----------------------------------------------------------------------------------- */

const FIXED = [
	{ key: "state", title: "State", text: (r) => visible(r.state), node: badge },
	{ key: "name", title: "Name", text: (r) => r.id + r.name,
		node: (r) => el("a", { href: "#/run/" + r.id, title: visible(r.name) }, bdi(r.name || r.id)) },
	{ key: "experiment", title: "Experiment", text: (r) => r.experiment ?? "–", node: (r) => bdi(r.experiment ?? "–") },
	{ key: "started", title: "Started", text: (r) => String(r.started), node: (r) => time(r.started) },
	{ key: "duration", title: "Duration", text: lasted },
	{ key: "", title: "Progress", text: progressText, node: progress },
];
const PLAIN = ["image", "place", "owner", "note", "tags", "changed"];

function cell(run, name) {
	if (Object.hasOwn(run.metrics, name))
		return number(run.metrics[name]);
	if (Object.hasOwn(run.values, name))
		return visible(run.values[name]);
	return PLAIN.includes(name) && run[name] ? visible(name === "tags" ? run.tags.join(" ") : run[name]) : "–";
}

class Runs {
	static place = {};  /* the list that was left last: its hash and where it was scrolled to */

	constructor(query) {
		fill("runs");
		title("Runs");
		Object.assign(this, { blocks: new Map(), rows: new Map(), known: [], values: new Set(), matched: 0, turn: 0 });
		this.q = query.get("q") || "";
		this.sort = query.get("sort") || "-started";
		this.cols = query.has("col") ? query.getAll("col").filter(Boolean) : null;
		this.chosen = new Set((query.get("sel") || "").split(",").filter(Boolean));
		this.box = byId("rows");
		this.body = this.box.querySelector("tbody");
		byId("filter").value = this.q;
		byId("filter").addEventListener("input", () => this.later(200, () => this.filter()));
		byId("search").addEventListener("submit", (e) => { e.preventDefault(); this.filter(); });
		byId("clear").addEventListener("click", () => { this.chosen.clear(); this.choose(); });
		byId("stop")?.addEventListener("click", () => this.stop());
		this.box.addEventListener("scroll", () => { this.need(); this.draw(); });
		this.resized = new ResizeObserver(() => { this.need(); this.draw(); });
		this.resized.observe(this.box);
		this.heads();
		this.choose();
		this.again(true, Runs.place.hash === location.hash ? Runs.place.top : 0);
	}

	events() { return ""; }
	refresh() { this.again(); }
	tick() { this.draw(); }

	leave() {
		Runs.place = { hash: location.hash, top: this.box.scrollTop };
		this.resized.disconnect();
		this.turn = -1;
		clearTimeout(this.timer);
	}

	later(ms, what) {
		clearTimeout(this.timer);
		this.due = Date.now() + ms;
		this.timer = setTimeout(() => { this.due = 0; what(); }, ms);
	}

	/* Ask again for the rows in sight within this time. */
	soon(ms) {
		if (!this.due || this.due > Date.now() + ms)
			this.later(ms, () => this.again());
	}

	filter() {
		if (this.q === byId("filter").value)
			return;
		this.q = byId("filter").value;
		this.keep();
		this.again(true);
	}

	/* The address holds filter, order, columns and selection. */
	keep() {
		const p = new URLSearchParams();
		for (const [key, value] of [["q", this.q], ["sort", this.sort], ["sel", [...this.chosen].join(",")]])
			if (value)
				p.set(key, value);
		for (const name of this.cols && !this.cols.length ? [""] : this.cols || [])
			p.append("col", name);
		history.replaceState(null, "", "#/?" + p);
	}

	extra() { return (this.cols || this.known.slice(0, 2)).slice(0, COLUMNS_MAX); }

	heads() {
		const [, falling, by] = /^(-?)(.*)$/s.exec(this.sort), extra = this.extra();
		const columns = [...FIXED, ...extra.map((name) => ({ key: name, title: visible(name), num: true,
			text: (r) => cell(r, name) }))];
		const key = JSON.stringify([this.sort, extra]);
		if (this.headed === key)
			return;
		this.headed = key;
		this.columns = columns;
		this.rows.clear();
		const focus = document.activeElement?.dataset?.sort;
		this.box.querySelector("thead tr").replaceChildren(el("th", { scope: "col", className: "pick" },
			el("span", { className: "hidden", textContent: "Selected" })), ...columns.map((c) => {
			const here = c.key && c.key === by, th = el("th", { scope: "col", className: c.num ? "num" : "k-" + c.key });
			if (here)
				th.setAttribute("aria-sort", falling ? "descending" : "ascending");
			const press = () => this.order(here && falling ? c.key : "-" + c.key);
			th.append(c.key ? el("button", { type: "button", title: c.title, click: press,
				"data-sort": c.key }, bdi(c.title), here ? (falling ? " ↓" : " ↑") : "") : c.title);
			if (c.key && focus === c.key)
				setTimeout(() => th.firstChild.focus());
			return th;
		}));
		this.box.querySelector("table").style.setProperty("--extra", extra.length);
		this.draw();
	}

	order(sort) {
		this.sort = sort;
		this.keep();
		this.heads();
		this.again(true);
	}

	/* The menu of columns: metrics first, then what else the runs have. */
	menu() {
		const names = [...new Set([...this.known, ...this.values, ...PLAIN, ...this.extra()])].slice(0, 200);
		const box = byId("columns").querySelector("div"), shown = new Set(this.extra());
		put(box, JSON.stringify(names), () => {
			const list = document.createDocumentFragment();
			for (const name of names)
				list.append(el("label", {}, el("input", { type: "checkbox", value: name, checked: shown.has(name),
					change: (e) => this.show(name, e.target.checked) }), " ", bdi(name)));
			return list;
		});
	}

	show(name, on) {
		this.cols = this.extra().filter((n) => n !== name).concat(on ? [name] : []);
		this.keep();
		this.heads();
	}

	/* The numbers of the rows to draw: those in sight and some around, ROWS_MAX at most. */
	sight() {
		const high = this.high || 36, seen = Math.ceil(this.box.clientHeight / high) + 1;
		const around = Math.max(0, Math.min(12, Math.floor((ROWS_MAX - seen) / 2)));
		const from = Math.max(0, Math.floor(this.box.scrollTop / high) - around);
		return [from, Math.max(from, Math.min(from + Math.min(seen + 2 * around, ROWS_MAX), this.matched))];
	}

	get(block) {
		return ask(`runs?${new URLSearchParams({ q: this.q, sort: this.sort, offset: block * BLOCK, limit: BLOCK })}`);
	}

	/* Ask for rows that came in sight. */
	need() {
		const blocks = this.blocks, [from, to] = this.sight();
		for (let b = Math.floor(from / BLOCK); b * BLOCK < to; b++)
			if (!blocks.has(b)) {
				blocks.set(b, []);
				this.get(b).then((a) => {
					blocks.set(b, a.runs);
					if (blocks === this.blocks)
						this.draw();
				}, (e) => { blocks.delete(b); problem(e); });
			}
	}

	/* Ask for the rows in sight anew. The first of them stays in its place, but where the list begins anew. */
	async again(anew, top = 0) {
		const turn = ++this.turn, blocks = new Map(), first = Math.floor(this.box.scrollTop / (this.high || 36));
		const anchor = !anew && first > 0 ? this.run(first)?.id : null;
		const [from, to] = anew ? [Math.floor(top / 36), Math.floor(top / 36) + 1] : this.sight();
		const numbers = [];
		for (let b = Math.floor(from / BLOCK); b * BLOCK < Math.max(to, 1); b++)
			numbers.push(b);
		try {
			const answers = await Promise.all(numbers.map((b) => this.get(b)));
			if (turn !== this.turn)
				return;
			numbers.forEach((b, i) => blocks.set(b, answers[i].runs));
			this.take(answers[0], blocks);
			if (anew)
				this.box.scrollTop = top;
			const at = anchor ? this.find(anchor)?.[2] : undefined;
			if (at !== undefined && at !== first)
				this.box.scrollTop += (at - first) * this.high;
			byId("filter").removeAttribute("aria-invalid");
			problem(null);
		} catch (e) {
			if (turn !== this.turn)
				return;
			if (e.status === 400)
				byId("filter").setAttribute("aria-invalid", "true");
			problem(e);
		}
		this.need();
		this.draw();
	}

	take(a, blocks) {
		this.blocks = blocks;
		this.matched = a.matched;
		this.known = a.metrics;
		for (const run of a.runs)
			for (const name of Object.keys(run.values).slice(0, 100))
				this.values.add(name);
		this.count(a.total, a.scanning);
		notes(a.notes);
		this.heads();
		this.menu();
		this.draw();
	}

	count(total, scanning) {
		put(byId("count"), (this.q ? count(this.matched) + " of " : "") + count(total) + " runs" +
			(scanning ? ", still looking…" : ""));
		byId("none").hidden = this.matched > 0 || scanning;
		this.box.hidden = this.matched === 0;
		put(byId("none"), total ? "No run matches the filter." : "No runs yet.");
	}

	run(i) { return this.blocks.get(Math.floor(i / BLOCK))?.[i % BLOCK]; }

	/* The block, the place in it and the number of a run that is known here. */
	find(id) {
		for (const [b, runs] of this.blocks) {
			const i = runs.findIndex((r) => r.id === id);
			if (i >= 0)
				return [runs, i, b * BLOCK + i];
		}
		return null;
	}

	/* Changed runs: those that are known change where they are; the order is asked for later. */
	runs(data) {
		let order = data.removed.length > 0;
		const said = [];
		for (const run of data.runs) {
			const [block, i] = this.find(run.id) || [];
			order ||= !block || block[i].state !== run.state;
			if (block && block[i].state !== run.state)
				said.push(`${run.name}: ${run.state}`);
			if (block)
				block[i] = run;
		}
		if (said.length)
			say(said.slice(0, 3).join(", "));
		this.count(data.total, data.scanning);
		this.draw();
		this.soon(order ? 1000 : 10000);
	}

	row(run) {
		const pick = el("input", { type: "checkbox", checked: this.chosen.has(run.id), change: (e) => {
			this.chosen[e.target.checked ? "add" : "delete"](run.id);
			this.choose();
		} });
		return el("tr", {}, el("td", { className: "pick" }, pick), ...this.columns.map((c) =>
			el(c.key === "name" ? "th" : "td", c.key === "name" ? { scope: "row" } : { className: c.num ? "num" : "" })));
	}

	/* Bring the rows of the document to what is in sight, keeping those that stay. */
	draw() {
		const [from, to] = this.sight(), runs = [], wide = this.columns.length + 1;
		if (this.turn < 0)
			return;
		let first = from;
		for (let i = from; i < to; i++)
			if (this.run(i))
				runs.push(this.run(i));
			else if (!runs.length)
				first = i + 1;
		const space = (n) => {
			const td = el("td", { colSpan: wide }), tr = el("tr", { className: "space", "aria-hidden": "true" }, td);
			td.style.height = n * (this.high || 36) + "px";
			return tr;
		};
		const rows = runs.map((run, i) => this.line(run, first + i)), focus = document.activeElement;
		const held = this.body.contains(focus), after = Math.max(0, this.matched - first - runs.length);
		const all = [...(first > 0 && runs.length ? [space(first)] : []), ...rows, ...(after ? [space(after)] : [])];
		const ids = new Set(runs.map((r) => r.id));
		for (const id of this.rows.keys())
			if (!ids.has(id))
				this.rows.delete(id);
		this.body.querySelectorAll(".space").forEach((s) => s.remove());
		for (const tr of [...this.body.children])
			if (!all.includes(tr))
				tr.remove();
		all.forEach((tr, i) => this.body.children[i] === tr || this.body.insertBefore(tr, this.body.children[i] || null));
		if (held && document.activeElement !== focus)
			(this.body.contains(focus) ? focus : this.box).focus({ preventScroll: true });
		this.box.querySelector("table").setAttribute("aria-rowcount", this.matched + 1);
		const high = rows[0]?.getBoundingClientRect().height;
		if (high && Math.abs(high - (this.high || 36)) > 0.1) {
			this.high = high;
			this.draw();
		}
	}

	line(run, number) {
		const tr = this.rows.get(run.id) || this.row(run), pick = tr.querySelector("input");
		this.rows.set(run.id, tr);
		tr.setAttribute("aria-rowindex", number + 2);
		tr.classList.toggle("chosen", pick.checked);
		pick.setAttribute("aria-label", "select " + visible(run.name));
		this.columns.forEach((c, i) => put(tr.cells[i + 1], c.text(run), c.node && (() => c.node(run))));
		return tr;
	}

	choose() {
		byId("chosen").hidden = !this.chosen.size;
		byId("chosen").querySelector("span").textContent = this.chosen.size + " selected";
		for (const [id, tr] of this.rows) {
			tr.querySelector("input").checked = this.chosen.has(id);
			tr.classList.toggle("chosen", this.chosen.has(id));
		}
		if (this.blocks.size)
			this.keep();
	}

	async stop() {
		const ids = [...this.chosen];
		if (!await sure(`Stop ${ids.length} selected run${ids.length > 1 ? "s" : ""}?`, "Stop"))
			return;
		const results = await Promise.allSettled(ids.map((id) => ask(`runs/${id}/stop`, { body: {} })));
		problem(results.find((r) => r.reason)?.reason);
		this.soon(0);
	}
}

/* --- a log ---------------------------------------------------------------------------------- */

/* Text of a terminal as lines of spans: \r replaces a line, SGR's colours are classes, other escapes vanish. */
class Terminal {
	constructor() {
		Object.assign(this, { held: "", style: {}, spans: [], back: false });
	}

	/* The lines that end in this text, each a list of [text, class]; the line that goes on is in spans. */
	feed(text) {
		const lines = [], all = this.held + text;
		const token = /\x1b(?:\[([0-?]*)[ -/]*([@-~])|[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)|[ -/]*[0-OQ-WYZ\\`-~])|\n|\r|[^\x1b\n\r]+|\x1b/gy;
		const open = /\x1b(?:\[[0-?]*[ -/]*|[\]PX^_][^\x07\x1b]*\x1b?|[ -/]*)$/.exec(all);
		this.held = open && open[0].length < 4096 ? open[0] : "";
		for (const [t, numbers, end] of all.slice(0, all.length - this.held.length).matchAll(token))
			if (t === "\n") {
				lines.push(this.spans);
				this.spans = [];
				this.back = false;
			} else if (t === "\r") {
				this.back = true;
			} else if (end === "m") {
				this.color(numbers);
			} else if (t[0] !== "\x1b") {
				this.write(t);
			}
		return lines;
	}

	write(text) {
		const { bold, front, ground } = this.style;
		if (this.back)
			this.spans = [];
		this.back = false;
		this.spans.push([visibleLines(text.replaceAll("\b", "")), [bold && "bold", front, ground].filter(Boolean).join(" ")]);
		if (this.spans.length > 1000)
			this.spans = this.spans.slice(-500);
	}

	color(numbers) {
		const list = numbers.split(";").map(Number);
		for (let i = 0; i < list.length; i++) {
			const n = list[i], bright = n >= 90 ? 8 : 0, place = n % 10 + bright;
			if (n === 0)
				this.style = {};
			else if (n === 1 || n === 22)
				this.style.bold = n === 1;
			else if (n === 38 || n === 48)
				i += list[i + 1] === 5 ? 2 : list[i + 1] === 2 ? 4 : 0;
			else if (n === 39 || n === 49)
				this.style[n === 39 ? "front" : "ground"] = "";
			else if ((n >= 30 && n <= 37) || (n >= 90 && n <= 97))
				this.style.front = "f" + place;
			else if ((n >= 40 && n <= 47) || (n >= 100 && n <= 107))
				this.style.ground = "g" + (n % 10 + (n >= 100 ? 8 : 0));
		}
	}
}

function lineOf(spans, e = el("div")) {
	e.replaceChildren(...spans.map(([text, kind]) => kind ? el("span", { className: kind, textContent: text }) : text));
	return e;
}

/*
 * A log in a box: parts {from, to, lines}, of which the first may have lost its first lines. While the reader is
 * elsewhere than at the end, lines are added only as long as there is room; then isCut, until the end is shown again.
 */
class Log {
	constructor(id, box) {
		Object.assign(this, { id, box, busy: false, seen: 0 });
		this.begin();
		box.addEventListener("scroll", () => box.scrollTop < 200 && this.older());
		byId("log-end").addEventListener("click", () => this.isCut ? this.end().then(connect) :
			box.scrollTo(0, box.scrollHeight));
	}

	begin() {
		this.box.replaceChildren();
		Object.assign(this, { parts: [], n: 0, isCut: false, terminal: new Terminal(), open: null });
	}

	get(to, size) { return ask(`runs/${this.id}/log?size=${size}` + (to === null ? "" : "&to=" + to)); }
	isAtEnd() { return this.box.scrollHeight - this.box.scrollTop - this.box.clientHeight < 24; }

	async end() {
		const a = await this.get(null, PART).catch(problem);
		if (!a)
			return;
		this.begin();
		this.append(a, true);
	}

	/* Add text at the end. */
	append(a, follow = this.isAtEnd()) {
		this.seen = a.to;
		if (this.isCut || (!follow && this.n >= LINES_MAX)) {
			this.isCut = true;
			return;
		}
		if (a.skipped || a.note)
			this.note(a.note || size(a.skipped) + " left out here", a.from);
		let part = this.parts.at(-1);
		if (!part || part.isNote || part.to - part.from > PART / 2) {
			part = { from: a.from, to: a.from, lines: [] };
			this.parts.push(part);
		}
		part.to = a.to;
		const lines = this.terminal.feed(a.text), fresh = [];
		for (const spans of [...lines, this.terminal.spans]) {
			if (!spans.length && spans === this.terminal.spans)
				break;
			if (this.open)
				lineOf(spans, this.open);
			else
				fresh.push(this.open = lineOf(spans));
			if (spans !== this.terminal.spans)
				this.open = null;
		}
		part.lines.push(...fresh);
		this.n += fresh.length;
		this.box.append(...fresh.slice(-LINES_MAX));
		this.trim();
		if (follow)
			this.box.scrollTop = this.box.scrollHeight;
	}

	note(text, at) {
		const line = el("div", { className: "note", textContent: visible(text) });
		Object.assign(this, { open: null, terminal: new Terminal() });
		this.parts.push({ from: at, to: at, lines: [line], isNote: true });
		this.n++;
		this.box.append(line);
	}

	/* Take lines from the beginning until there are no more than LINES_MAX. */
	trim() {
		while (this.n > LINES_MAX) {
			const part = this.parts[0], gone = part.lines.splice(0, this.n - LINES_MAX);
			gone.forEach((line) => line.remove());
			this.n -= gone.length;
			part.isShort = true;
			if (!part.lines.length)
				this.parts.shift();
		}
	}

	/* Put lines before the first one, up to a half of LINES_MAX, and drop whole parts at the end for them. */
	async older() {
		const first = this.parts[0], whole = !first?.isShort;
		if (this.busy || !first || (whole && first.from <= 0))
			return;
		this.busy = true;
		const a = await (whole ? this.get(first.from, PART) : this.get(first.to, first.to - first.from)).catch(problem);
		if (a && first === this.parts[0]) {
			const terminal = new Terminal(), spans = terminal.feed(a.text);
			if (terminal.spans.length)
				spans.push(terminal.spans);
			const all = whole ? spans : spans.slice(0, Math.max(0, spans.length - first.lines.length));
			if (whole)
				this.parts.unshift({ from: a.from, to: first.from, lines: [] });
			this.before(this.parts[0], all.slice(-LINES_MAX / 2).map((s) => lineOf(s)), all.length > LINES_MAX / 2);
		}
		this.busy = false;
	}

	before(part, lines, isShort) {
		const high = this.box.scrollHeight;
		part.lines.unshift(...lines);
		part.isShort = isShort;
		this.n += lines.length;
		this.box.prepend(...lines);
		this.box.scrollTop += this.box.scrollHeight - high;
		if (!part.lines.length)
			this.parts.shift();
		while (this.n > LINES_MAX && this.parts.length > 1) {
			this.isCut = true;
			const gone = this.parts.pop();
			gone.lines.forEach((line) => line.remove());
			this.n -= gone.lines.length;
		}
	}
}

/* --- a run ---------------------------------------------------------------------------------- */

const policy = window.trustedTypes?.createPolicy("report", { createHTML: (s) => s }) || { createHTML: (s) => s };
const CHART = "section,div,p,h2,h3,figure,figcaption,span,input,label,ul,li,script[type='application/json']," +
	"svg,g,path,circle,rect,text";

/* The elements of a fragment of charts: only those that charts have. */
function chartNodes(html) {
	const doc = new DOMParser().parseFromString(policy.createHTML(html), "text/html"), all = document.createDocumentFragment();
	doc.querySelectorAll(`body *:not(${CHART})`).forEach((e) => e.remove());
	all.append(...doc.body.childNodes);
	if (!all.querySelector(".charts"))
		all.replaceChildren(el("div", { className: "charts" }, ...all.querySelectorAll(".chart")));
	return all;
}

const quote = (s) => /^[\w@%+=:,./-]+$/.test(s) ? s : "'" + s.replaceAll("'", "'\\''") + "'";

class Run {
	constructor(query, id) {
		fill("run");
		Object.assign(this, { id, run: null, dirty: false, was: null, drawn: null, turn: 0 });
		this.tail = new Log(id, byId("log"));
		byId("stop")?.addEventListener("click", () => this.stop());
		byId("copy").addEventListener("click", () => this.copy());
		byId("note-form").addEventListener("input", () => { this.dirty = true; put(byId("saved"), ""); });
		byId("note-form").addEventListener("submit", (e) => { e.preventDefault(); this.save(this.was); });
		this.ready = this.refresh();
	}

	events() { return `?run=${this.id}&from=${this.tail.seen}`; }
	leave() { clearTimeout(this.timer); this.run = null; }
	tick() { if (this.run) this.draw(); }

	poll() {
		this.refresh();
		if (this.tail.isAtEnd())
			this.tail.end();
	}

	async refresh() {
		try {
			const run = await ask("runs/" + this.id), had = this.run?.log;
			if (view && view !== this)
				return;
			this.run = run;
			problem(null);
			this.draw();
			this.details();
			byId("log").hidden = byId("log-end").hidden = !run.log;
			put(byId("log-name"), run.log ? visible(run.log) : "No log.");
			if (run.log && !had)
				await this.tail.end();
			if (this.drawn !== run.changed)
				this.charts();
		} catch (e) {
			problem(e);
		}
	}

	/* What changes while a run goes on. */
	draw() {
		const run = this.run, name = run.name || run.id, reason = run.reason ? visible(run.reason) : "";
		title(name);
		put(byId("name"), name, () => bdi(name));
		put(byId("state"), run.state + reason, () => el("span", {}, badge(run), reason && " " + reason));
		if (byId("stop"))
			byId("stop").hidden = !run.is_own || !isAlive(run);
		if (byId("again")) {
			byId("again").hidden = !run.image;
			byId("again").href = "#/new?from=" + this.id;
		}
		const all = Object.entries(run.metrics), tiles = all.slice(0, TILES_MAX);
		put(byId("tiles"), JSON.stringify([all.length, tiles]), () => {
			const list = document.createDocumentFragment();
			for (const [key, value] of tiles)
				list.append(el("div", { className: "tile" }, el("dt", {}, bdi(key)), el("dd", { textContent: number(value) })));
			if (all.length > tiles.length)
				list.append(el("div", { className: "tile" }, el("dt", { textContent: "and more" }),
					el("dd", { textContent: count(all.length - tiles.length) })));
			return list;
		});
		const pairs = [["Progress", progressText(run), progress(run)], ["Duration", lasted(run)], ["Started", run.started, time(run.started)],
			["Ended", run.ended, time(run.ended)], ["Last sign of life", run.changed, time(run.changed)], ["Experiment", run.experiment],
			["Directory", run.directory], ["Image", run.image], ["Place", run.place], ["Owner", run.owner]];
		put(byId("about"), JSON.stringify(pairs), () => facts(pairs.filter((p) => p[1] !== null).map(([key, text, node]) =>
			[key, node || bdi(text)])));
		if (!this.dirty)
			this.texts(run);
	}

	/* What a listing of runs does not have. */
	details() {
		const run = this.run, values = Object.entries(run.values).slice(0, 1000);
		notes(run.notes);
		put(byId("values"), JSON.stringify(values), () => values.length ? facts(values.map(([k, v]) => [k, bdi(v)])) :
			el("p", { className: "about", textContent: "None." }));
		put(byId("line"), run.line ? visible(run.line) : "–");
		byId("copy").hidden = !run.line;
		put(byId("files"), JSON.stringify(run.files), () => table("Files", ["Name", "Size", "Changed", ""],
			run.files.slice(0, 1000).map((f) => [bdi(f.name), size(f.size), time(f.changed), el("button", { type: "button",
				textContent: "Download", "aria-label": "Download " + visible(f.name), click: () => this.download(f.name) })])));
	}

	texts(run) {
		this.was = { note: run.note, tags: run.tags };
		byId("note").value = run.note;
		byId("tags").value = run.tags.join(" ");
		byId("note").readOnly = byId("tags").readOnly = me.read_only || !run.is_own;
		if (byId("note-form").querySelector("button.act"))
			byId("note-form").querySelector("button.act").hidden = !run.is_own;
	}

	/* --- events --- */

	runs(data) {
		const run = data.runs.find((r) => r.id === this.id);
		if (data.removed.includes(this.id))
			problem(new Error("This run was removed."));
		if (!run || !this.run)
			return;
		const isOther = run.state !== this.run.state;
		Object.assign(this.run, run);
		if (isOther)
			say(run.name + ": " + run.state);
		this.draw();
		if (isOther)
			clearTimeout(this.timer);
		if (isOther || !this.timer)
			this.timer = setTimeout(() => { this.timer = 0; this.refresh(); }, isOther ? 0 : 10000);
	}

	log(data) { this.tail.append(data); }

	/* Draw the charts anew, but not under a pointer that drags. */
	async charts() {
		const turn = ++this.turn, box = byId("charts"), changed = this.run?.changed;
		const html = await ask(`runs/${this.id}/charts`, { raw: true }).then((r) => r.text()).catch(problem);
		while (box.querySelector(".band") && turn === this.turn)
			await new Promise((done) => setTimeout(done, 300));
		if (html === undefined || turn !== this.turn || !this.run)
			return;
		this.drawn = changed;
		if (html === this.html)
			return;
		this.html = html;
		const fresh = chartNodes(html);
		if (!fresh.querySelector(".chart"))
			fresh.replaceChildren(el("p", { className: "about", textContent: "No curves: no metrics were logged so far." }));
		window.reportCharts(box, fresh);
	}

	/* --- actions --- */

	async stop() {
		if (!await sure("Stop " + (this.run.name || this.id) + "?", "Stop"))
			return;
		byId("stop").disabled = true;
		await ask(`runs/${this.id}/stop`, { body: {} }).then((run) => this.runs({ runs: [run], removed: [] }), problem);
		byId("stop").disabled = false;
	}

	async copy() {
		try {
			await navigator.clipboard.writeText(this.run.line);
			byId("copied").textContent = "copied";
		} catch {
			getSelection().selectAllChildren(byId("line"));
			byId("copied").textContent = "selected: copy it by the keyboard";
		}
	}

	async download(name) {
		try {
			const reply = await ask(`runs/${this.id}/files/${encodeURIComponent(name)}`, { raw: true });
			const href = URL.createObjectURL(await reply.blob());
			el("a", { href, download: visible(name) }).click();
			setTimeout(() => URL.revokeObjectURL(href), 60000);
		} catch (e) {
			problem(e);
		}
	}

	async save(was) {
		const mine = { note: byId("note").value, tags: byId("tags").value.split(/\s+/).filter(Boolean) };
		try {
			const run = await ask(`runs/${this.id}/note`, { body: { ...mine, was } });
			this.dirty = false;
			Object.assign(this.run, run);
			this.draw();
			byId("other").replaceChildren();
			put(byId("saved"), "saved");
		} catch (e) {
			if (e.status === 409)
				this.differ({ note: e.note, tags: e.tags }, mine);
			else
				byId("other").replaceChildren(el("p", { className: "bad", textContent: visibleLines(e.message) }));
		}
	}

	/* Someone else has changed the note meanwhile: show both. */
	differ(theirs, mine) {
		const text = (t) => el("pre", { className: "both", textContent: visibleLines(t.note + "\n" + t.tags.join(" ")) });
		const press = (label, what) => el("button", { type: "button", textContent: label, click: () => {
			byId("other").replaceChildren();
			what();
		} });
		byId("other").replaceChildren(
			el("p", { className: "bad", textContent: "It was changed elsewhere meanwhile. There it is:" }), text(theirs),
			el("p", { textContent: "Yours:" }), text(mine), el("p", { className: "bar" },
				press("Keep mine", () => this.save(theirs)),
				press("Take the other", () => { this.dirty = false; Object.assign(this.run, theirs); this.texts(theirs); })));
	}
}

/* --- a new run ------------------------------------------------------------------------------ */

/* Split into words as a shell does, with quotes and backslashes, and nothing expanded. Null where a quote stays open. */
function words(text) {
	const token = /\s+|'([^']*)'|"((?:[^"\\]|\\[^])*)"|\\([^])|([^\s'"\\]+)/gy, list = [];
	let word = null, end = 0;
	for (const m of text.matchAll(token)) {
		end = m.index + m[0].length;
		if (/^\s/.test(m[0])) {
			list.push(...(word === null ? [] : [word]));
			word = null;
		} else {
			word = (word ?? "") + (m[1] ?? m[2]?.replace(/\\(["\\$`])/g, "$1").replace(/\\\n/g, "") ??
				(m[3] === "\n" ? "" : m[3]) ?? m[4]);
		}
	}
	return end < text.length ? null : word === null ? list : [...list, word];
}

const FIELDS = [["directory", "Directory", "select"], ["experiment", "Experiment", "input"], ["name", "Name", "input"],
	["image", "Image", "input"], ["command", "Command", "textarea"]];

class New {
	constructor(query) {
		fill("new");
		title("New run");
		this.key = this.fresh();
		byId("new").firstElementChild.append(...FIELDS.map(([id, label, kind]) => el("div", { className: "field" },
			el("label", { htmlFor: "w-" + id, textContent: label }),
			el(kind, { id: "w-" + id, autocomplete: "off", spellcheck: false, "aria-describedby": `w-${id}-bad` }),
			el("p", { id: `w-${id}-bad`, className: "bad" }))));
		byId("directory").append(...me.directories.map((d) => el("option", { value: d, textContent: visible(d) })));
		byId("image").required = true;
		byId("image").setAttribute("list", "w-images");
		byId("image").after(el("datalist", { id: "w-images" }));
		byId("new").addEventListener("input", () => this.change());
		byId("new").addEventListener("submit", (e) => { e.preventDefault(); this.start(); });
		ask("machine").then((m) => byId("images")?.append(...m.images.map((i) => el("option", { value: i.name }))), () => {});
		const sent = JSON.parse(store("session", SENT));
		if (query.has("from"))
			this.ready = ask("runs/" + query.get("from")).then((run) => this.put(run), problem);
		else if (sent)
			this.put(sent.body);
		this.change();
	}

	leave() { clearTimeout(this.timer); this.isGone = true; }
	fresh() { return Array.from(crypto.getRandomValues(new Uint8Array(16)), (b) => b.toString(16).padStart(2, "0")).join(""); }

	put(run) {
		for (const [id] of FIELDS)
			if (id === "directory" && ![...byId(id).options].some((o) => o.value === run.directory))
				continue;
			else
				byId(id).value = id === "command" ? (run.command || []).map(quote).join(" ") : run[id] ?? "";
		this.change();
	}

	body() {
		const body = Object.fromEntries(FIELDS.map(([id]) => [id, byId(id).value]));
		return { ...body, command: words(body.command) };
	}

	/* The elements at once, the line when there was a pause. */
	change() {
		const body = this.body();
		this.mark(body.command ? null : { field: "command", message: "A quote is not closed." });
		put(byId("words"), JSON.stringify(body.command), () => {
			const list = document.createDocumentFragment();
			list.append(...(body.command || []).map((w) => el("li", {}, el("code", { textContent: visible(w) }))));
			return list;
		});
		byId("start").disabled = this.busy || !body.command;
		clearTimeout(this.timer);
		if (body.image && body.command)
			this.timer = setTimeout(async () => {
				const a = await ask("preview", { body }).catch((e) => e);
				if (!this.isGone)
					put(byId("line"), a.line ? visible(a.line) : visibleLines(a.message || "–"));
			}, 300);
		else
			put(byId("line"), "–");
	}

	/* Mark the field that the server refused; no other one. */
	mark(error) {
		for (const [id] of FIELDS) {
			const bad = error?.field === id;
			byId(id).toggleAttribute("aria-invalid", bad);
			if (bad)
				byId(id).setAttribute("aria-invalid", "true");
			put(byId(id + "-bad"), bad ? visibleLines(error.message) + (error.hint ? " " + visibleLines(error.hint) : "") : "");
		}
		return FIELDS.some(([id]) => id === error?.field);
	}

	/* Send one request. Its key is kept until there is an answer, so that the same, sent after a reload, starts nothing. */
	async start() {
		const body = this.body(), sent = JSON.parse(store("session", SENT));
		if (this.busy)
			return;
		if (sent && JSON.stringify(sent.body) === JSON.stringify(body))
			this.key = sent.key;
		store("session", SENT, JSON.stringify({ key: this.key, body }));
		this.busy = byId("start").disabled = true;
		put(byId("starting"), "starting…");
		problem(null);
		try {
			const run = await ask("runs", { body, headers: { "Idempotency-Key": this.key } });
			store("session", SENT, null);
			if (!this.isGone)
				location.hash = "#/run/" + run.id;
		} catch (e) {
			if (e.status >= 400 && e.status < 500) {
				store("session", SENT, null);
				this.key = this.fresh();
			}
			if (!this.isGone && this.mark(e))
				byId(e.field).focus();
			else if (!this.isGone)
				problem(e);
		}
		this.busy = false;
		if (!this.isGone) {
			byId("start").disabled = false;
			put(byId("starting"), "");
		}
	}
}

/* --- the machine ---------------------------------------------------------------------------- */

class Machine {
	constructor() {
		fill("machine");
		title("Machine");
		this.ready = this.refresh();
	}

	tick() { this.refresh(); }

	async refresh() {
		const m = await ask("machine").catch(problem);
		if (!m || !byId("tables"))
			return;
		problem(null);
		notes(m.notes);
		const meter = (label, value, max, text) => el("span", { className: "progress" },
			el("progress", { max: max || 1, value: value || 0, "aria-label": label }), " " + text);
		put(byId("tables"), JSON.stringify(m), () => el("div", {},
			table("Services", ["Name", "Image", "State", "Since"], m.services.map((s) =>
				[bdi(s.name), bdi(s.image ?? "–"), badge(s), time(s.since)])),
			table("GPUs", ["GPU", "Name", "Load", "Memory"], m.gpus.map((g) => [String(g.index), bdi(g.name),
				meter("load", g.percent, 100, number(g.percent) + " %"),
				meter("memory", g.memory, g.memory_total, size(g.memory) + " of " + size(g.memory_total))])),
			table("Space for runs", ["Directory", "Free", "Size"], m.directories.map((d) =>
				[bdi(d.path), size(d.free), size(d.size)])),
			table("Images", ["Name", "Size"], m.images.map((i) => [bdi(i.name), size(i.size)]))));
	}
}

/* --- the way around ------------------------------------------------------------------------- */

const VIEWS = { "": Runs, run: Run, new: New, machine: Machine };

function route() {
	if (!me)
		return;
	const [, page, id, query] = /^#?\/?([a-z]*)\/?([0-9a-f]*)\??(.*)$/s.exec(location.hash) || [0, "", "", ""];
	const kind = page === "new" && me.read_only ? Runs : VIEWS[page] || Runs;
	view?.leave?.();
	disconnect();
	view = null;
	const mine = view = new kind(new URLSearchParams(query), id);
	for (const a of document.querySelectorAll("nav a"))
		a.toggleAttribute("aria-current", VIEWS[a.dataset.page] === kind);
	byId("main").querySelector("h1").tabIndex = -1;
	if (route.again)
		byId("main").querySelector("h1").focus();
	route.again = true;
	scrollTo(0, 0);
	Promise.resolve(view.ready).then(() => mine === view && connect());
}

async function begin() {
	try {
		me = await ask("session");
		byId("who").textContent = visible(me.user + "@" + me.node);
		document.querySelectorAll("header .act").forEach((e) => { e.hidden = me.read_only; });
		route();
	} catch (e) {
		if (e.status !== 401)
			connection(e.message + " Trying again.");
		if (e.status !== 401)
			setTimeout(begin, 5000);
		return;
	}
	connection("");
}

async function load() {
	const key = /^#k=([^&]+)/.exec(location.hash), scheme = byId("scheme");
	scheme.value = document.documentElement.dataset.scheme = store("local", SCHEME) || "";
	scheme.addEventListener("change", () => {
		document.documentElement.dataset.scheme = scheme.value;
		store("local", SCHEME, scheme.value);
	});
	addEventListener("hashchange", route);
	document.addEventListener("visibilitychange", () => me && (document.hidden ? disconnect() : connect()));
	setInterval(() => document.hidden || view?.tick?.(), 5000);
	if (!key)
		return store("local", TOKEN) ? begin() : sign("Open the link that `mlrun web` printed, or paste it here.");
	history.replaceState(null, "", location.pathname + location.search + "#/");
	await enter(key[1]).then(begin, (e) => e.status === 401 ? sign() : sign(e.message));
}

load();
