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
