// The filters above the molecules hide the rows that do not match all of them.
const filters = document.getElementById("filters");
const molecules = [...document.getElementById("all-molecules").tBodies[0].rows];
const texts = new Map(molecules.map((row) => [row, row.textContent.toLowerCase()]));
const applyFilters = () => {
  const choices = Object.fromEntries(new FormData(filters));
  const words = choices.words.toLowerCase().split(/\s+/);
  let count = 0;
  for (const row of molecules) {
    const matches = ["predicted", "error", "flag", "seen"].every((name) => !choices[name] || row.dataset[name] === choices[name]);
    row.hidden = !(matches && words.every((word) => texts.get(row).includes(word)));
    count += !row.hidden;
  }
  document.getElementById("shown").textContent = `${count} of ${molecules.length} shown`;
};
filters.addEventListener("input", applyFilters);
filters.addEventListener("submit", (event) => event.preventDefault());
applyFilters();

// A click on a drawing opens it large, with the contribution of each coloured atom beside it.
const enlarged = document.getElementById("enlarged");
document.getElementById("all-molecules").addEventListener("click", (event) => {
  const card = event.target.closest("button.card");
  if (!card) return;
  const drawing = card.querySelector("svg").cloneNode(true);
  for (const circle of drawing.querySelectorAll("circle[data-value]")) {
    const text = document.createElementNS(drawing.namespaceURI, "text");
    text.setAttribute("x", circle.getAttribute("cx"));
    text.setAttribute("y", Number(circle.getAttribute("cy")) - Number(circle.getAttribute("r")) * 0.7);
    text.textContent = circle.dataset.value.replace("-", "−");
    drawing.append(text);
  }
  const headings = [...card.closest("table").tHead.rows[0].cells].map((heading) => heading.textContent.trim());
  const facts = [...card.closest("tr").cells].map((cell, index) => {
    const text = cell.contains(card) ? "" : cell.innerText.trim().replace(/\s*\n\s*/g, ", ");
    return text && (cell.className === "about" ? text : `${headings[index]} ${text}`);
  });
  enlarged.querySelector("div").replaceChildren(drawing);
  enlarged.querySelector("p").textContent = facts.filter(Boolean).join(" · ");
  enlarged.showModal();
});
enlarged.addEventListener("click", (event) => event.target === enlarged && enlarged.close());
