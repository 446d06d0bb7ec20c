"use strict";
const pad = document.getElementById("pad"), ink = pad.getContext("2d");
const byId = (id) => document.getElementById(id);
let token = "", number = 0, last = null, what = null;

function clear() {
	ink.fillStyle = "#000";
	ink.fillRect(0, 0, pad.width, pad.height);
	byId("answer").replaceChildren();
	byId("note").textContent = "";
}

function show(classes) {
	const rows = classes.slice().sort((a, b) => b.score - a.score).slice(0, 5).map((c) => {
		const row = document.createElement("tr"), name = document.createElement("th");
		const share = document.createElement("td"), bar = document.createElement("td");
		const meter = document.createElement("meter");
		name.scope = "row";
		name.textContent = c.label;
		share.textContent = (100 * c.score).toFixed(1) + " %";
		meter.value = c.score;
		bar.append(meter);
		row.append(name, share, bar);
		return row;
	});
	byId("answer").replaceChildren(...rows);
}

async function ask(picture) {
	const mine = ++number, headers = { "Content-Type": picture.type };
	what = picture;
	if (token)
		headers.Authorization = "Bearer " + token;
	try {
		const reply = await fetch("predict", { method: "POST", body: picture, headers });
		const answer = await reply.json();
		if (mine !== number)
			return;
		byId("login").hidden = reply.status !== 401;
		byId("note").textContent = reply.ok ? "" : answer.detail[0].msg;
		if (reply.ok)
			show(answer.predictions[0]);
	} catch (e) {
		byId("note").textContent = "The server does not answer: " + e.message;
	}
}

function place(e) {
	const box = pad.getBoundingClientRect();
	return [(e.clientX - box.left) * pad.width / box.width, (e.clientY - box.top) * pad.height / box.height];
}

pad.addEventListener("pointerdown", (e) => { last = place(e); pad.setPointerCapture(e.pointerId); });
pad.addEventListener("pointermove", (e) => {
	if (!last)
		return;
	const to = place(e);
	ink.strokeStyle = "#fff";
	ink.lineWidth = 22;
	ink.lineCap = ink.lineJoin = "round";
	ink.beginPath();
	ink.moveTo(...last);
	ink.lineTo(...to);
	ink.stroke();
	last = to;
});
pad.addEventListener("pointerup", () => { last = null; pad.toBlob(ask, "image/png"); });

function take(file) {
	if (!file)
		return;
	clear();
	createImageBitmap(file).then((b) => {
		const s = Math.max(pad.width / b.width, pad.height / b.height);
		ink.drawImage(b, (pad.width - s * b.width) / 2, (pad.height - s * b.height) / 2, s * b.width, s * b.height);
	}, () => {});
	ask(file);
}
document.addEventListener("dragover", (e) => e.preventDefault());
document.addEventListener("drop", (e) => { e.preventDefault(); take(e.dataTransfer.files[0]); });
byId("file").addEventListener("change", (e) => take(e.target.files[0]));
byId("clear").addEventListener("click", clear);
byId("token").addEventListener("change", (e) => { token = e.target.value; if (what) ask(what); });
clear();
