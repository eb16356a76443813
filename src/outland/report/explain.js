// The boxes above the molecules hide the rows that do not fit all of them.
const filters = document.getElementById("filters");
const molecules = [...document.getElementById("all-molecules").tBodies[0].rows];
const texts = new Map(molecules.map((row) => [row, row.textContent.toLowerCase()]));
const sift = () => {
  const wanted = Object.fromEntries(new FormData(filters));
  const words = wanted.words.toLowerCase().split(/\s+/);
  let count = 0;
  for (const row of molecules) {
    const fits = ["said", "error", "flag", "seen"].every((name) => !wanted[name] || row.dataset[name] === wanted[name]);
    row.hidden = !(fits && words.every((word) => texts.get(row).includes(word)));
    count += !row.hidden;
  }
  document.getElementById("shown").textContent = `${count} of ${molecules.length} shown`;
};
filters.addEventListener("input", sift);
filters.addEventListener("submit", (event) => event.preventDefault());
sift();
