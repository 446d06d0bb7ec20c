"use strict";
/* The page of mlrun web: each hash route is a view, which fills <main> from the template of its name. */
const ROWS_MAX = 60, BLOCK = 100, LINES_MAX = 2000, PART = 65536, TILES_MAX = 24, COLUMNS_MAX = 40;
const TOKEN = "mlrun-web" + location.pathname, SCHEME = "mlrun-web-scheme", SENT = TOKEN + " form";
const byId = (id) => document.getElementById("w-" + id);
let me = null, view = null, skew = 0;

/* --- text and elements ------------------------------------------------------------------------------- */

/* What cannot be seen, or turns the order of what stands beside it, is shown as an escape. */
const ODD = /[\0-\x1f\x7f-\x9f\xad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\p{Surrogate}]/gu;
const escaped = (c) => "\\u{" + c.codePointAt(0).toString(16) + "}";
const visible = (s) => String(s).replace(ODD, escaped);
const visibleLines = (s) => String(s).replace(ODD, (c) => c === "\n" || c === "\t" ? c : escaped(c));

/* An element with properties, attributes and listeners; what is inside is text or nodes. */
function el(name, given = {}, ...inside) {
	const e = document.createElement(name);
	for (const [key, value] of Object.entries(given))
		if (typeof value === "function")
			e.addEventListener(key, value);
		else if (key in e)
			e[key] = value;
		else
			e.setAttribute(key, value);
	e.append(...inside);
	return e;
}
const bdi = (s) => el("bdi", { textContent: visible(s) });
const about = (text) => el("p", { className: "about", textContent: text });
const bad = (text) => el("p", { className: "bad", textContent: visibleLines(text) });
const button = (textContent, click) => el("button", { type: "button", textContent, click });

/* Replace what an element shows, unless it shows that already; nodes() makes what stands for the text. */
function put(e, text, nodes = () => [text]) {
	if (e.was !== text) e.replaceChildren(...nodes());
	e.was = text;
}

function on(id, event, what) {
	byId(id)?.addEventListener(event, (e) => {
		if (event === "submit") e.preventDefault();
		what(e);
	});
}

const now = () => Date.now() / 1000 + skew;
const count = (n) => Number(n).toLocaleString("en").replaceAll(",", "\u202f");

function number(v) {
	const a = Math.abs(v);
	if (typeof v !== "number") return visible(v ?? "–");
	return v && (a < 1e-3 || a >= 1e7) ? v.toExponential(3) : String(Number(v.toPrecision(a >= 1e4 ? 6 : 4)));
}

function duration(s) {
	const part = (unit, of) => Math.floor(s / unit % of), two = (n) => String(n).padStart(2, "0");
	if (s === null || !(s >= 0)) return "–";
	return s < 9.95 ? s.toFixed(1) + " s" : s < 99.5 ? Math.round(s) + " s"
		: s < 3600 ? `${part(60, 60)} min ${two(part(1, 60))} s`
			: s < 86400 ? `${part(3600, 24)} h ${two(part(60, 60))} min` : `${part(86400, 1e9)} d ${part(3600, 24)} h`;
}

function size(n) {
	const unit = n > 0 ? Math.min(4, Math.floor(Math.log2(n) / 10)) : 0;
	return unit ? (n / 1024 ** unit).toPrecision(3) + " " + " KMGT"[unit] + "iB" : n + " B";
}

/* A time in the reader's zone; the title says it in UTC. */
function time(s) {
	const d = new Date(s * 1000), utc = s === null || isNaN(d) ? null : d.toISOString();
	return utc ? el("time", { dateTime: utc, title: utc.replace("T", " ").replace(/\..*/, " UTC"),
		textContent: d.toLocaleString("en-GB", { dateStyle: "medium", timeStyle: "short" }) }) : "–";
}

const STATES = ["waiting", "running", "succeeded", "failed", "stopped", "lost"];
const badge = (run) => el("span", { textContent: visible(run.state),
	className: "state " + (STATES.find((s) => s === run.state) || "unknown") });
const isAlive = (run) => run.state === "running" || run.state === "waiting";
const lasted = (run) => duration(run.started === null ? null :
	(run.ended ?? (isAlive(run) ? now() : run.changed)) - run.started);
const progressText = (run) => run.progress === null ? "–" : Math.round(100 * run.progress) + " %" +
	(run.left !== null && isAlive(run) ? ", " + duration(run.left) + " left" : "");
const meter = (label, value, max, text) => el("span", {},
	el("progress", { max, value, "aria-label": label }), " " + text);
const progress = (run) => run.progress === null ? "–" :
	meter("progress", run.progress, 1, progressText(run));

function table(caption, heads, rows) {
	const cells = (row) => row.map((c, i) => el(i ? "td" : "th", i ? {} : { scope: "row" }, c));
	const region = { className: "scroll", tabIndex: 0, role: "region", "aria-label": caption };
	if (!rows.length) return about(caption + ": none.");
	return el("div", region, el("table", {}, el("caption", {}, caption),
		el("thead", {}, el("tr", {}, ...heads.map((h) => el("th", { scope: "col", textContent: h })))),
		el("tbody", {}, ...rows.map((row) => el("tr", {}, ...cells(row))))));
}

const facts = (pairs) => el("dl", { className: "facts" }, ...pairs.map(([name, value]) =>
	el("div", {}, el("dt", { textContent: visible(name) }), el("dd", {}, value))));

/* Fill <main> from a template, without what a reader may not do. */
function fill(name, title) {
	byId("main").replaceChildren(document.getElementById("page-" + name).content.cloneNode(true));
	byId("main").querySelectorAll(!me || me.read_only ? ".act" : "none").forEach((e) => e.remove());
	document.title = title + " · mlrun web";
}

function problem(error) {
	const box = byId("problem"), hint = error?.hint;
	if (box && error?.status !== 401)
		put(box, error ? error.message + hint : "", () => !error ? [] :
			[bad(error.message), ...hint ? [about(visibleLines(hint))] : []]);
}

function notes(list) {
	byId("notes").hidden = !list.length;
	put(byId("notes"), list.join("\n"), () => list.slice(0, 100).map((n) => el("li", {}, bdi(n))));
}

const say = (text) => { byId("said").textContent = visible(text); };

/* Ask in the page; resolves to whether the answer is yes. */
function sure(text, yes) {
	const box = byId("sure");
	byId("sure-text").replaceChildren(bdi(text));
	box.querySelector("[value=yes]").textContent = yes;
	box.returnValue = "no";
	box.showModal();
	return new Promise((done) => { box.onclose = () => done(box.returnValue === "yes"); });
}

/* --- the server -------------------------------------------------------------------------------------- */

/* Read, write or, with null, remove what the browser keeps; where it refuses to, it is kept by this page. */
function store(kind, key, value) {
	try {
		const place = window[kind + "Storage"];
		return value === undefined ? place.getItem(key) : value === null ? place.removeItem(key)
			: place.setItem(key, value);
	} catch {
		return value === undefined ? store[key] ?? null : store[key] = value;
	}
}

async function ask(path, { body, headers, key, raw, signal } = {}) {
	const token = store("local", TOKEN), given = { signal, cache: "no-store", headers: { ...headers } };
	if (token) given.headers.Authorization = "Bearer " + token;
	if (body) Object.assign(given, { method: "POST", body: JSON.stringify(body) });
	if (body) given.headers["Content-Type"] = "application/json";
	const reply = await fetch("api/v1/" + path, given).catch((e) => {
		throw new Error("The server does not answer: " + e.message);
	});
	const clock = Date.parse(reply.headers.get("Date")) / 1000;
	if (Math.abs(clock - now()) > 2) skew = clock - Date.now() / 1000;
	if (reply.ok) return raw ? reply : reply.json();
	const said = await reply.json().catch(() => ({}));
	if (reply.status === 401 && !key) sign();
	throw Object.assign(new Error(said.detail || said.title || "The server answers " + reply.status), said,
		{ status: reply.status });
}

/* Exchange a link's key for a token. */
async function enter(key) {
	store("local", TOKEN, null);
	store("local", TOKEN, (await ask("session", { body: { key }, key })).token);
}

function sign(why) {
	store("local", TOKEN, null);
	view?.leave?.();
	view = me = null;
	disconnect();
	fill("sign", "Sign in");
	if (why) byId("sign-why").textContent = why;
	on("sign", "submit", () => enter(/#k=([^&\s]+)/.exec(byId("link").value)?.[1] || byId("link").value.trim())
		.then(begin, (e) => problem({ message: e.message, hint: e.hint })));
	byId("link").focus();
}

/* --- the stream -------------------------------------------------------------------------------------- */

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
	if (!view?.events || document.hidden) return;
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
	if (mine !== link) return;
	connection(busy ? "Many pages are open: this one asks every five seconds." : "not connected, trying again");
	timer = setTimeout(busy ? poll : connect, busy ? 5000 : 1000 * pause);
	pause = Math.min(2 * pause, 30);
}

/* Ask in place of listening; each sixth time the stream is tried again. */
function poll() {
	if (++polls % 6 === 0) return connect();
	(view.poll || view.refresh).call(view);
	timer = setTimeout(poll, 5000);
}

async function listen(reader, mine) {
	for (let text = ""; ;) {
		const dead = setTimeout(() => mine.abort(), 40000); /* a beat comes every 15 s */
		const { done, value } = await reader.read().finally(() => clearTimeout(dead));
		if (done) return;
		pause = 1;
		const parts = (text + value).split(/\r?\n\r?\n/);
		text = parts.pop();
		parts.forEach((part) => mine === link && hear(part));
	}
}

function hear(part) {
	const field = (name) => part.split(/\r?\n/).filter((l) => l.startsWith(name + ":"))
		.map((l) => l.slice(name.length + 1)).join("\n").trim();
	lastId = field("id") || lastId;
	if (["runs", "log", "charts"].includes(field("event"))) view[field("event")]?.(JSON.parse(field("data")));
}

/* --- runs -------------------------------------------------------------------------------------------- */

const FIXED = [
	{ key: "state", title: "State", text: (r) => visible(r.state), node: badge },
	{ key: "name", title: "Name", text: (r) => r.id + r.name,
		node: (r) => el("a", { href: "#/run/" + r.id, title: visible(r.name) }, bdi(r.name || r.id)) },
	{ key: "experiment", title: "Experiment", text: (r) => visible(r.experiment ?? "–") },
	{ key: "started", title: "Started", text: (r) => String(r.started), node: (r) => time(r.started) },
	{ key: "duration", title: "Duration", text: lasted },
	{ key: "", title: "Progress", text: progressText, node: progress },
];
const PLAIN = ["image", "place", "owner", "note", "tags"];

const cell = (run, name) => Object.hasOwn(run.metrics, name) ? number(run.metrics[name])
	: Object.hasOwn(run.values, name) ? visible(run.values[name])
		: visible(PLAIN.includes(name) && String(run[name] ?? "").replaceAll(",", " ") || "–");

class Runs {
	static left = {}; /* where the list was scrolled to when it was left, and its address */

	constructor(query) {
		fill("runs", "Runs");
		Object.assign(this, { blocks: new Map(), rows: new Map(), known: [], values: new Set(), matched: 0, turn: 0,
			high: 36, box: byId("rows"), body: byId("list"), q: query.get("q") || "",
			sort: query.get("sort") || "-started", hash: location.hash,
			cols: query.has("col") ? query.getAll("col").filter(Boolean) : null,
			chosen: new Set((query.get("sel") || "").split(",").filter(Boolean)) });
		byId("filter").value = this.q;
		on("filter", "input", () => this.later(200, () => this.filter()));
		on("search", "submit", () => this.filter());
		on("clear", "click", () => { this.chosen.clear(); this.choose(); });
		on("stop", "click", () => this.stop());
		on("rows", "scroll", () => this.draw());
		this.resized = new ResizeObserver(() => this.draw());
		this.resized.observe(this.box);
		this.heads();
		this.choose();
		this.ready = this.again(Runs.left.hash === this.hash ? Runs.left.top : 0);
	}

	events() { return ""; }
	refresh() { this.again(); }
	tick() { this.draw(); }

	leave() {
		Runs.left = { hash: this.hash, top: this.box.scrollTop };
		this.resized.disconnect();
		this.turn = NaN;
		clearTimeout(this.timer);
	}

	later(ms, what) {
		clearTimeout(this.timer);
		this.due = Date.now() + ms;
		this.timer = setTimeout(() => { this.due = 0; what(); }, ms);
	}

	filter() {
		if (this.q !== byId("filter").value) this.change({ q: byId("filter").value });
	}

	/* Show other rows, from the first one. */
	change(what) {
		Object.assign(this, what);
		this.keep();
		this.heads();
		this.again(0);
	}

	/* The address holds filter, order, columns and selection. */
	keep() {
		const all = { q: this.q, sort: this.sort, sel: [...this.chosen].join(",") };
		const p = new URLSearchParams(Object.entries(all).filter(([, value]) => value));
		for (const name of this.cols?.length === 0 ? [""] : this.cols || []) p.append("col", name);
		history.replaceState(null, "", this.hash = "#/?" + p);
	}

	extra() { return (this.cols || this.known.slice(0, 2)).slice(0, COLUMNS_MAX); }

	heads() {
		const extra = this.extra(), head = this.box.querySelector("thead tr"), focus = document.activeElement?.name;
		put(head, JSON.stringify([this.sort, extra]), () => {
			this.columns = [...FIXED, ...extra.map((key) => ({ key, title: visible(key), isExtra: true,
				text: (r) => cell(r, key) }))];
			this.rows.clear();
			return [el("th", { scope: "col", className: "pick" }, el("span", { className: "hidden" }, "Selected")),
				...this.columns.map((c) => this.head(c))];
		});
		this.box.querySelector("table").style.setProperty("--extra", extra.length);
		[...head.querySelectorAll("button")].find((b) => b.name === focus)?.focus();
		this.draw();
	}

	head(c) {
		const falls = this.sort === "-" + c.key, here = c.key && (falls || this.sort === c.key);
		const th = el("th", { scope: "col", className: c.isExtra ? "num" : "k-" + c.key });
		if (here) th.setAttribute("aria-sort", falls ? "descending" : "ascending");
		const press = el("button", { type: "button", name: "by " + c.key, title: c.title,
			click: () => this.change({ sort: falls ? c.key : "-" + c.key }) });
		press.append(bdi(c.title), !here ? "" : falls ? " ↓" : " ↑");
		th.append(c.key ? press : c.title);
		return th;
	}

	/* The menu of columns: metrics first, then what else the runs have. */
	menu() {
		const names = [...new Set([...this.known, ...this.values, ...PLAIN, ...this.extra()])].slice(0, 200);
		put(byId("columns").querySelector("div"), JSON.stringify(names), () => names.map((name) => el("label", {},
			el("input", { type: "checkbox", value: name, checked: this.extra().includes(name), change: (e) => {
				this.cols = this.extra().filter((n) => n !== name).concat(e.target.checked ? [name] : []);
				this.keep();
				this.heads();
			} }), " ", bdi(name))));
	}

	/* The numbers of the rows to draw: those in sight and some around, ROWS_MAX at most. */
	sight(top = this.box.scrollTop) {
		const seen = Math.ceil((this.box.clientHeight || 900) / this.high) + 1;
		const around = Math.max(0, Math.min(12, Math.floor((ROWS_MAX - seen) / 2)));
		const from = Math.max(0, Math.floor(top / this.high) - around);
		return [from, from + Math.min(seen + 2 * around, ROWS_MAX)];
	}

	/* The numbers of the blocks that have these rows. */
	span([from, to]) {
		const first = Math.floor(from / BLOCK);
		return Array.from({ length: Math.ceil(to / BLOCK) - first }, (_, i) => first + i);
	}

	get(block) {
		const asked = { q: this.q, sort: this.sort, offset: block * BLOCK, limit: BLOCK };
		return ask("runs?" + new URLSearchParams(asked));
	}

	/* Ask for the rows in sight anew. The first one stays where it is, unless the list is to start elsewhere. */
	async again(start = this.start) {
		const turn = ++this.turn, first = Math.floor(this.box.scrollTop / this.high);
		const numbers = this.span(this.sight(start)), anchor = first && this.run(first)?.id;
		Object.assign(this, { start, isAsking: true });
		try {
			const answers = await Promise.all(numbers.map((b) => this.get(b)));
			if (turn !== this.turn) return;
			this.blocks = new Map(numbers.map((b, i) => [b, answers[i].runs]));
			this.take(answers[0]);
			const at = this.find(anchor)?.[2] ?? first;
			this.box.scrollTop = start ?? this.box.scrollTop + (at - first) * this.high;
			this.start = undefined;
			problem(null);
		} catch (e) {
			if (turn !== this.turn) return;
			problem(e);
			byId("filter").setAttribute("aria-invalid", e.status === 400);
		}
		this.isAsking = false;
		this.draw();
	}

	take(a) {
		Object.assign(this, { matched: a.matched, known: a.metrics });
		a.runs.forEach((run) => Object.keys(run.values).slice(0, 100).forEach((name) => this.values.add(name)));
		byId("filter").removeAttribute("aria-invalid");
		this.count(a);
		notes(a.notes);
		this.heads();
		this.menu();
	}

	count({ total, scanning }) {
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
			if (i >= 0) return [runs, i, b * BLOCK + i];
		}
		return null;
	}

	/* Changed runs: those that are known change where they are; their order is asked for later. */
	runs(data) {
		const said = [];
		let isOther = data.removed.length > 0, wait;
		for (const run of data.runs) {
			const [block, i] = this.find(run.id) || [];
			if (block && block[i].state !== run.state) said.push(`${run.name}: ${run.state}`);
			isOther ||= !block;
			if (block) block[i] = run;
		}
		if (said.length) say(said.slice(0, 3).join(", "));
		this.count(data);
		this.draw();
		wait = isOther || said.length || this.isAsking ? 1000 : 10000; /* what is asked for may be older */
		if (!this.due || this.due > Date.now() + wait) this.later(wait, () => this.again());
	}

	/* Bring the rows of the document to what is in sight, keeping those that stay. */
	draw() {
		if (!this.columns || isNaN(this.turn)) return;
		const [from, to] = this.sight(), numbers = [], focus = document.activeElement, body = this.body;
		for (let i = from; i < Math.min(to, this.matched); i++)
			if (this.run(i)) numbers.push(i);
		const rows = numbers.map((i) => this.row(this.run(i), i)), first = numbers[0] ?? this.matched;
		const spaces = this.box.querySelectorAll(".space td"), held = body.contains(focus);
		[first, Math.max(0, this.matched - first - rows.length)].forEach((n, i) => {
			spaces[i].style.height = n * this.high + "px";
		});
		[...body.children].forEach((tr) => rows.includes(tr) || tr.remove());
		rows.forEach((tr, i) => body.children[i] === tr || body.insertBefore(tr, body.children[i] || null));
		this.rows = new Map(numbers.map((n, i) => [this.run(n).id, rows[i]]));
		if (held && document.activeElement !== focus)
			(this.body.contains(focus) ? focus : this.box).focus({ preventScroll: true });
		this.box.querySelector("table").setAttribute("aria-rowcount", this.matched + 1);
		this.high = rows[0]?.getBoundingClientRect().height || this.high;
		this.need();
	}

	/* Ask for rows that came in sight. */
	need() {
		const blocks = this.blocks, [from, to] = this.sight();
		for (const b of blocks.size ? this.span([from, Math.min(to, this.matched)]) : [])
			if (!blocks.has(b)) {
				blocks.set(b, []);
				this.get(b).then((a) => { blocks.set(b, a.runs); this.draw(); },
					(e) => { blocks.delete(b); problem(e); });
			}
	}

	fresh(id) {
		const pick = el("input", { type: "checkbox", change: () => {
			this.chosen[pick.checked ? "add" : "delete"](id);
			this.choose();
		} });
		return el("tr", {}, el("td", { className: "pick" }, pick), ...this.columns.map((c) => c.key === "name" ?
			el("th", { scope: "row" }) : el("td", { className: c.isExtra ? "num" : "" })));
	}

	row(run, number) {
		const tr = this.rows.get(run.id) || this.fresh(run.id);
		const pick = tr.querySelector("input");
		pick.checked = this.chosen.has(run.id);
		pick.setAttribute("aria-label", "select " + visible(run.name));
		tr.classList.toggle("chosen", pick.checked);
		tr.setAttribute("aria-rowindex", number + 2);
		this.columns.forEach((c, i) => put(tr.cells[i + 1], c.text(run), c.node && (() => [c.node(run)])));
		return tr;
	}

	choose() {
		byId("chosen").hidden = !this.chosen.size;
		byId("chosen").querySelector("span").textContent = this.chosen.size + " selected";
		if (this.blocks.size) this.keep();
		this.draw();
	}

	async stop() {
		const ids = [...this.chosen];
		if (!await sure(`Stop ${ids.length} selected ${ids.length > 1 ? "runs" : "run"}?`, "Stop")) return;
		const results = await Promise.allSettled(ids.map((id) => ask(`runs/${id}/stop`, { body: {} })));
		await this.again();
		problem(results.find((r) => r.reason)?.reason);
	}
}

/* --- a log ------------------------------------------------------------------------------------------- */

/* A terminal's text as lines of spans: \r replaces a line, SGR's colours are classes, other escapes vanish. */
class Terminal {
	held = ""; style = {}; spans = []; isBack = false;

	/* The lines that end in this text, each a list of [text, class]; the line that goes on is in spans. */
	feed(text) {
		const open = /\x1b(?:\[[0-?]*[ -/]*|[\]PX^_][^\x07\x1b]*\x1b?|[ -/]*)$/, lines = [], all = this.held + text;
		const token = new RegExp("\\x1b\\[([0-?]*)[ -/]*([@-~])|\\x1b[\\]PX^_][^\\x07\\x1b]*(?:\\x07|\\x1b\\\\)|" +
			"\\x1b[ -/]*[0-~]|[\\n\\r\\x1b]|[^\\x1b\\n\\r]+", "g");
		this.held = open.exec(all.slice(-4096))?.[0] || "";
		for (const [t, numbers, end] of all.slice(0, all.length - this.held.length).matchAll(token))
			if (t === "\n") {
				lines.push(this.spans);
				this.spans = [];
				this.isBack = false;
			} else if (t === "\r") {
				this.isBack = true;
			} else if (end === "m") {
				this.color(numbers.split(";").map(Number));
			} else if (t[0] !== "\x1b") {
				const kind = Object.values(this.style).filter(Boolean).join(" ");
				this.spans = [...this.isBack ? [] : this.spans.slice(-500), [visibleLines(t.replaceAll("\b", "")), kind]];
				this.isBack = false;
			}
		return lines;
	}

	color(list) {
		for (let i = 0; i < list.length; i++) {
			const n = list[i], [, tens, place] = /^([349]|10)([0-7])$/.exec(n) || [];
			if (tens)
				this.style[tens === "4" || tens === "10" ? "ground" : "front"] =
					(tens === "4" || tens === "10" ? "g" : "f") + (Number(place) + (tens > 4 ? 8 : 0));
			else if (n === 0)
				this.style = {};
			else if (n === 1 || n === 22)
				this.style.bold = n === 1 ? "bold" : "";
			else if (n === 38 || n === 48)
				i += list[i + 1] === 5 ? 2 : 4;
			else if (n === 39 || n === 49)
				this.style[n === 39 ? "front" : "ground"] = "";
		}
	}
}

function lineOf(spans, e = el("div")) {
	e.replaceChildren(...spans.map(([text, className]) => className ? el("span", { className }, text) : text));
	return e;
}

/*
 * A log in a box: parts {from, to, lines}, of which the first may lack its first lines, the last its last.
 * Then, and when it is full and not scrolled to its end, isCut: nothing is added until the end is asked for.
 */
class Log {
	constructor(id, box) {
		Object.assign(this, { id, box, isBusy: false, seen: 0 });
		this.begin();
		on("log", "scroll", () => box.scrollTop < 200 && this.older());
		on("log-end", "click", () => this.isCut ? this.end().then(connect) : box.scrollTo(0, box.scrollHeight));
	}

	begin() {
		this.box.replaceChildren();
		Object.assign(this, { parts: [], n: 0, isCut: false, terminal: new Terminal(), open: null });
	}

	get(size, to) { return ask(`runs/${this.id}/log?size=${size}` + (to === undefined ? "" : "&to=" + to)); }
	isAtEnd() { return this.box.scrollHeight - this.box.scrollTop - this.box.clientHeight < 24; }

	async end() {
		const a = await this.get(PART).catch(problem);
		if (a) this.begin();
		if (a) this.append(a, true);
	}

	/* Add text at the end. */
	append(a, follow = this.isAtEnd()) {
		this.seen = a.to;
		this.isCut ||= !follow && this.n >= LINES_MAX;
		if (this.isCut) return;
		if (a.skipped || a.note) this.note(a.note || size(a.skipped) + " left out here", a.from);
		let part = this.parts.at(-1);
		if (!part || part.isNote || part.to - part.from > PART / 2)
			this.parts.push(part = { from: a.from, to: a.from, lines: [] });
		part.to = a.to;
		const ended = this.terminal.feed(a.text), before = part.lines.length, rest = this.terminal.spans;
		for (const spans of rest.length ? [...ended, rest] : ended) {
			const line = lineOf(spans, this.open || undefined);
			if (!this.open) part.lines.push(line);
			this.open = spans === rest ? line : null;
		}
		this.n += part.lines.length - before;
		this.box.append(...part.lines.slice(before));
		while (this.n > LINES_MAX) this.drop(this.parts[0], 0, this.n - LINES_MAX);
		if (follow) this.box.scrollTop = this.box.scrollHeight;
	}

	note(text, at) {
		const line = el("div", { className: "note", textContent: visible(text) });
		Object.assign(this, { open: null, terminal: new Terminal() });
		this.parts.push({ from: at, to: at, lines: [line], isNote: true });
		this.n++;
		this.box.append(line);
	}

	/* Take lines from a part, and the part when it is empty. */
	drop(part, from, n) {
		const gone = part.lines.splice(from, n);
		gone.forEach((line) => line.remove());
		this.n -= gone.length;
		part[from ? "lost" : "isShort"] = from ? (part.lost || 0) + gone.length : true;
		this.parts = this.parts.filter((p) => p.lines.length);
	}

	/* Put lines before the first one, up to a half of LINES_MAX, and drop as many as are too many at the end. */
	async older() {
		const first = this.parts[0], isWhole = !first?.isShort;
		if (this.isBusy || !first || (isWhole && first.from <= 0)) return;
		this.isBusy = true;
		const range = isWhole ? [PART, first.from] : [first.to - first.from, first.to];
		const a = await this.get(...range).catch(problem);
		this.isBusy = false;
		if (!a || first !== this.parts[0]) return;
		const terminal = new Terminal(), spans = terminal.feed(a.text), high = this.box.scrollHeight;
		const all = terminal.spans.length ? [...spans, terminal.spans] : spans, half = LINES_MAX / 2;
		const part = isWhole ? { from: a.from, to: first.from, lines: [] } : first;
		const left = isWhole ? all : all.slice(0, Math.max(0, all.length - first.lines.length - (first.lost || 0)));
		const lines = left.slice(-half).map((s) => lineOf(s));
		part.lines.unshift(...lines);
		part.isShort = left.length > half;
		this.parts = [part, ...this.parts.filter((p) => p !== part)];
		this.n += lines.length;
		this.box.prepend(...lines);
		this.box.scrollTop += this.box.scrollHeight - high;
		this.isCut ||= this.n > LINES_MAX;
		while (this.n > LINES_MAX) {
			const last = this.parts.at(-1), n = Math.min(last.lines.length, this.n - LINES_MAX);
			this.drop(last, last.lines.length - n, n);
		}
	}
}

/* --- a run ------------------------------------------------------------------------------------------- */

const rules = { createHTML: (s) => s }, policy = window.trustedTypes?.createPolicy("report", rules) || rules;
const CHART = "section,div,p,h2,h3,figure,figcaption,span,input,label,ul,li,svg,g,path,circle,rect,text," +
	"script[type='application/json']";

/* The elements of a fragment of charts: only such as charts have. */
function chartNodes(html) {
	const doc = new DOMParser().parseFromString(policy.createHTML(html), "text/html");
	const fresh = new DocumentFragment();
	doc.querySelectorAll(`body *:not(${CHART})`).forEach((e) => e.remove());
	fresh.append(...doc.body.childNodes);
	if (!fresh.querySelector(".chart"))
		fresh.replaceChildren(about("No curves: no metrics were logged so far."));
	else if (!fresh.querySelector(".charts"))
		fresh.replaceChildren(el("div", { className: "charts" }, ...fresh.querySelectorAll(".chart")));
	return fresh;
}

const quote = (s) => /^[\w@%+=:,./-]+$/.test(s) ? s : "'" + s.replaceAll("'", "'\\''") + "'";

class Run {
	constructor(query, id) {
		fill("run", "Run");
		Object.assign(this, { id, run: null, isDirty: false, was: null, drawn: null, turn: 0 });
		this.tail = new Log(id, byId("log"));
		on("stop", "click", () => this.stop());
		on("copy", "click", () => this.copy());
		on("note-form", "input", () => { this.isDirty = true; put(byId("saved"), ""); });
		on("note-form", "submit", () => this.save(this.was));
		this.ready = this.refresh();
	}

	events() { return `?run=${this.id}&from=${this.tail.seen}`; }
	leave() { clearTimeout(this.timer); }
	tick() { return this.run && this.draw(); }
	log(data) { this.tail.append(data); }

	poll() {
		this.refresh();
		if (this.tail.isAtEnd()) this.tail.end();
	}

	async refresh() {
		const had = this.run?.log, run = await ask("runs/" + this.id).catch(problem);
		if (!run || view !== this) return;
		this.run = run;
		problem(null);
		this.draw();
		this.details();
		if (run.log && !had) await this.tail.end();
		if (this.drawn !== run.changed && view === this) this.charts();
	}

	/* What changes while a run goes on. */
	draw() {
		const run = this.run, name = run.name || run.id, all = Object.entries(run.metrics);
		const more = all.length - TILES_MAX;
		const tile = (key, value) => el("div", { className: "tile" }, el("dt", {}, bdi(key)), el("dd", {}, value));
		document.title = visible(name) + " · mlrun web";
		put(byId("name"), name, () => [bdi(name)]);
		put(byId("state"), run.state + run.reason, () => [badge(run), run.reason ? " " + visible(run.reason) : ""]);
		const shown = { stop: run.is_own && isAlive(run), again: run.image, save: run.is_own };
		for (const id in shown)
			if (byId(id)) byId(id).hidden = !shown[id];
		put(byId("tiles"), JSON.stringify(all.slice(0, TILES_MAX)), () => [
			...all.slice(0, TILES_MAX).map(([key, value]) => tile(key, number(value))),
			...more > 0 ? [tile("and more", count(more))] : []]);
		const pairs = [["Progress", progressText(run), progress(run)], ["Duration", lasted(run), lasted(run)],
			["Started", run.started, time(run.started)], ["Ended", run.ended, time(run.ended)],
			["Last sign of life", run.changed, time(run.changed)], ["Experiment", run.experiment],
			["Directory", run.directory], ["Image", run.image], ["Place", run.place], ["Owner", run.owner]];
		put(byId("about"), JSON.stringify(pairs), () => [facts(pairs.filter((p) => p[1] !== null)
			.map(([key, text, node]) => [key, node || bdi(text)]))]);
		if (!this.isDirty) this.texts(run);
	}

	/* What only the answer about one run has. */
	details() {
		const run = this.run, values = Object.entries(run.values).slice(0, 1000);
		notes(run.notes);
		if (byId("again")) byId("again").href = "#/new?from=" + this.id;
		byId("log").hidden = byId("log-end").hidden = !run.log;
		byId("copy").hidden = !run.line;
		put(byId("log-name"), run.log ? visible(run.log) : "No log.");
		put(byId("values"), JSON.stringify(values), () => [values.length ?
			facts(values.map(([k, v]) => [k, bdi(v)])) : about("None.")]);
		put(byId("line"), visible(run.line ?? "–"));
		const load = (f) => el("button", { type: "button", "aria-label": "download " + visible(f.name),
			click: () => this.download(f.name) }, "Download");
		put(byId("files"), JSON.stringify(run.files), () => [table("Files", ["Name", "Size", "Changed", "Download"],
			run.files.slice(0, 1000).map((f) => [bdi(f.name), size(f.size), time(f.changed), load(f)]))]);
	}

	texts(now) {
		this.was = { note: now.note, tags: now.tags };
		byId("note").value = now.note;
		byId("tags").value = now.tags.join(" ");
		byId("note").readOnly = byId("tags").readOnly = me.read_only || !this.run.is_own;
	}

	runs(data) {
		const run = data.runs.find((r) => r.id === this.id), isOther = run && run.state !== this.run?.state;
		if (data.removed.includes(this.id)) problem(new Error("This run was removed."));
		if (!run || !this.run) return;
		Object.assign(this.run, run);
		this.draw();
		if (isOther) say(run.name + ": " + run.state);
		if (isOther || !this.timer)
			this.timer = setTimeout(() => { this.timer = 0; this.refresh(); }, isOther ? 0 : 10000);
	}

	/* Draw the charts anew, but not under a pointer that drags. */
	async charts() {
		const turn = ++this.turn, box = byId("charts"), changed = this.run?.changed;
		const html = await ask(`runs/${this.id}/charts`, { raw: true }).then((r) => r.text()).catch(problem);
		while (box.querySelector(".band") && turn === this.turn) await new Promise((done) => setTimeout(done, 300));
		if (html === undefined || turn !== this.turn || view !== this) return;
		this.drawn = changed;
		if (html !== this.html) window.reportCharts(box, chartNodes(html));
		this.html = html;
	}

	async stop() {
		if (!await sure("Stop " + (this.run.name || this.id) + "?", "Stop")) return;
		byId("stop").disabled = true;
		const run = await ask(`runs/${this.id}/stop`, { body: {} }).catch(problem);
		if (view !== this) return;
		if (run) this.runs({ runs: [run], removed: [] });
		byId("stop").disabled = false;
	}

	async copy() {
		const isCopied = await navigator.clipboard?.writeText(this.run.line).then(() => true, () => false);
		if (!isCopied) getSelection().selectAllChildren(byId("line"));
		put(byId("copied"), isCopied ? "copied" : "selected: copy it by the keyboard");
	}

	async download(name) {
		const reply = await ask(`runs/${this.id}/files/${encodeURIComponent(name)}`, { raw: true }).catch(problem);
		const href = reply && URL.createObjectURL(await reply.blob());
		if (href) el("a", { href, download: visible(name) }).click();
		setTimeout(() => URL.revokeObjectURL(href), 60000);
	}

	async save(was) {
		const mine = { note: byId("note").value, tags: byId("tags").value.split(/\s+/).filter(Boolean) };
		try {
			Object.assign(this.run, await ask(`runs/${this.id}/note`, { body: { ...mine, was } }));
			this.isDirty = false;
			this.draw();
			byId("other").replaceChildren();
			put(byId("saved"), "saved");
		} catch (e) {
			byId("other").replaceChildren(...e.status === 409 ? this.both(e, mine) : [bad(e.message)]);
		}
	}

	/* Someone else has changed the note meanwhile: show both. */
	both({ note, tags }, mine) {
		const text = (t) => el("pre", { className: "both" }, visibleLines(t.note + "\n" + t.tags.join(" ")));
		const take = () => {
			this.isDirty = false;
			this.texts(Object.assign(this.run, { note, tags }));
			byId("other").replaceChildren();
		};
		return [bad("It was changed elsewhere meanwhile. There it is:"), text({ note, tags }), el("p", {}, "Yours:"),
			text(mine), el("p", { className: "bar" }, button("Keep mine", () => this.save({ note, tags })),
				button("Take the other", take))];
	}
}

/* --- a new run --------------------------------------------------------------------------------------- */

/* Split into words as a shell does, with quotes and backslashes, nothing expanded; null if one stays open. */
function words(text) {
	const token = /\s+|'([^']*)'|"((?:[^"\\]|\\[^])*)"|\\([^])|([^\s'"\\]+)/gy, list = [];
	let word = null, end = 0;
	for (const [all, single, double, one, plain] of text.matchAll(token)) {
		end += all.length;
		const more = single ?? double?.replace(/\\(["\\$`\n])/g, "$1") ?? one ?? plain;
		if (more === undefined && word !== null) list.push(word);
		word = more === undefined ? null : (word ?? "") + more;
	}
	return end < text.length ? null : word === null ? list : [...list, word];
}

const FIELDS = [["directory", "Directory", "select"], ["experiment", "Experiment", "input"],
	["name", "Name", "input"], ["image", "Image", "input"], ["command", "Command", "textarea"]];

class New {
	constructor(query) {
		fill("new", "New run");
		this.key = this.fresh();
		byId("new").firstElementChild.append(...FIELDS.map(([id, label, kind]) => el("div", { className: "field" },
			el("label", { htmlFor: "w-" + id, textContent: label }),
			el(kind, { id: "w-" + id, autocomplete: "off", spellcheck: false, "aria-describedby": `w-${id}-bad` }),
			el("p", { id: `w-${id}-bad`, className: "bad" }))));
		byId("directory").append(...me.directories.map((d) => el("option", { value: d, textContent: visible(d) })));
		byId("image").required = true;
		byId("image").setAttribute("list", "w-images");
		byId("image").after(el("datalist", { id: "w-images" }));
		on("new", "input", () => this.change());
		on("new", "submit", () => this.start());
		const choices = (m) => m.images.map((i) => el("option", { value: i.name }));
		ask("machine").then((m) => byId("images")?.append(...choices(m)), () => {});
		const sent = JSON.parse(store("session", SENT));
		if (query.has("from"))
			ask("runs/" + query.get("from")).then((run) => view === this && this.put(run), problem);
		else if (sent)
			this.put(sent.body);
		this.change();
	}

	leave() { clearTimeout(this.timer); }

	fresh() { return crypto.getRandomValues(new Uint32Array(4)).join("-"); }

	/* Fill the fields with those of a run; its directory is that of the roots in which it lies. */
	put(run) {
		for (const [id] of FIELDS)
			if (id === "directory")
				byId(id).value = me.directories.find((d) => `${run[id]}/`.startsWith(d + "/")) || me.directories[0];
			else
				byId(id).value = id === "command" ? (run.command || []).map(quote).join(" ") : run[id] ?? "";
		this.change();
	}

	body() {
		const body = Object.fromEntries(FIELDS.map(([id]) => [id, byId(id).value]));
		return { ...body, command: words(body.command) };
	}

	/* Show the elements at once, the line when there was a pause. */
	change() {
		const body = this.body(), show = (text) => view === this && put(byId("line"), visibleLines(text));
		this.mark(body.command ? null : { field: "command", message: "A quote is not closed." });
		put(byId("words"), JSON.stringify(body.command), () => (body.command || []).map((w) =>
			el("li", {}, el("code", { textContent: visible(w) }))));
		byId("start").disabled = this.isBusy || !body.command;
		clearTimeout(this.timer);
		this.timer = setTimeout(() => body.image && body.command ?
			ask("preview", { body }).then((a) => show(a.line), (e) => show(e.message)) : show("–"), 300);
	}

	/* Mark the field that was refused; returns whether there is one. */
	mark(error) {
		for (const [id] of FIELDS) {
			const isBad = error?.field === id;
			byId(id)[isBad ? "setAttribute" : "removeAttribute"]("aria-invalid", "true");
			put(byId(id + "-bad"), isBad ? visibleLines([error.message, error.hint].filter(Boolean).join(": ")) : "");
		}
		return FIELDS.some(([id]) => id === error?.field);
	}

	/* Send one request. Its key is kept until there is an answer: the same after a reload starts nothing more. */
	async start() {
		const body = this.body(), sent = JSON.parse(store("session", SENT));
		if (this.isBusy) return;
		if (sent && JSON.stringify(sent.body) === JSON.stringify(body)) this.key = sent.key;
		store("session", SENT, JSON.stringify({ key: this.key, body }));
		this.isBusy = byId("start").disabled = true;
		problem(null);
		const run = await ask("runs", { body, headers: { "Idempotency-Key": this.key } }).catch((e) => e);
		if (run.id || run.status < 500) {
			store("session", SENT, null);
			this.key = this.fresh();
		}
		this.isBusy = false;
		if (view !== this) return;
		byId("start").disabled = false;
		if (run.id)
			location.hash = "#/run/" + run.id;
		else if (this.mark(run))
			byId(run.field).focus();
		else
			problem(run);
	}
}

/* --- the machine ------------------------------------------------------------------------------------- */

class Machine {
	constructor() {
		fill("machine", "Machine");
		this.tick();
	}

	async tick() {
		const m = await ask("machine").catch(problem);
		if (!m || view !== this) return;
		problem(null);
		notes([]);
		put(byId("tables"), JSON.stringify(m), () => [
			table("Services", ["Name", "Image", "State", "Since"], m.services.map((s) =>
				[bdi(s.name ?? "process " + s.pid), bdi(s.image ?? "–"), badge({ state: s.status }),
					time(s.started ? Date.parse(s.started) / 1000 : null)])),
			table("GPUs", ["GPU", "Model", "Memory"], m.gpus.map((g) => [String(g.index), bdi(g.model ?? "–"), size(g.memory)])),
			table("Space for runs", ["Directory", "Free", "Size"], m.directories.map((d) =>
				[bdi(d.path), size(d.free), size(d.size)])),
			table("Images", ["Name", "Size"], m.images.map((i) => [bdi(i.name), size(i.size)]))]);
	}
}

/* --- the way around ---------------------------------------------------------------------------------- */

const VIEWS = { "": Runs, run: Run, new: New, machine: Machine };

function route() {
	const [, page, id, query] = /^#?\/?([a-z]*)\/?([0-9a-f]*)\??(.*)$/s.exec(location.hash) || [0, "", "", ""];
	const kind = page === "new" && me?.read_only ? Runs : VIEWS[page] || Runs, isFirst = view === null;
	if (!me) return;
	view?.leave?.();
	disconnect();
	const mine = view = new kind(new URLSearchParams(query), id);
	for (const a of document.querySelectorAll("nav a"))
		a.toggleAttribute("aria-current", VIEWS[a.dataset.page] === kind);
	byId("main").querySelector("h1").tabIndex = -1;
	if (!isFirst) byId("main").querySelector("h1").focus();
	scrollTo(0, 0);
	Promise.resolve(view.ready).then(() => mine === view && connect());
}

async function begin() {
	me = await ask("session").catch((e) => {
		if (e.status !== 401) {
			connection(e.message + " Trying again.");
			setTimeout(begin, 5000);
		}
		return null;
	});
	if (!me) return;
	connection("");
	byId("who").textContent = visible(me.user + "@" + me.node);
	document.querySelectorAll("header .act").forEach((e) => { e.hidden = me.read_only; });
	route();
}

function load() {
	const key = /^#k=([^&]+)/.exec(location.hash), scheme = byId("scheme");
	scheme.value = document.documentElement.dataset.scheme = store("local", SCHEME) || "";
	on("scheme", "change", () => store("local", SCHEME, document.documentElement.dataset.scheme = scheme.value));
	addEventListener("hashchange", route);
	document.addEventListener("visibilitychange", () => me && (document.hidden ? disconnect() : connect()));
	setInterval(() => document.hidden || view?.tick?.(), 5000);
	if (key) history.replaceState(null, "", location.pathname + location.search + "#/");
	if (key)
		enter(key[1]).then(begin, (e) => sign(e.status === 401 ? undefined : e.message));
	else if (store("local", TOKEN))
		begin();
	else
		sign("Open the link that `mlrun web` printed, or paste it here.");
}

load();
