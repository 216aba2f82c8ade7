"use strict";
const life = document.getElementById("life");
if (life) {
  const [from, to, of] = ["from", "to", "of"].map((one) => document.getElementById(one));
  const rows = Number(life.dataset.rows), row = Number(life.dataset.row), head = Number(life.dataset.top);
  const width = life.viewBox.baseVal.width;
  const show = () => {
    const first = Math.min(Number(from.value), rows - 1), last = Math.max(first + 1, Number(to.value));
    const height = row * (last - first) + head;
    life.setAttribute("viewBox", `0 ${row * first} ${width} ${height}`);
    life.setAttribute("height", height);
    of.textContent = `${first + 1} to ${last} of ${rows}`;
  };
  const choose = (first, last) => {
    [from.value, to.value] = [first, last];
    show();
  };
  for (const one of [from, to]) {
    [one.min, one.max] = [0, rows];
    one.addEventListener("input", show);
  }
  for (const one of document.querySelectorAll("button")) {
    one.addEventListener("click", () => choose(one.dataset.from, one.dataset.to));
  }
  choose(0, rows);
}
