/** The name under which a person answers questions in this browser. The history of the execution records it. */

const KEY = "cogwork-answerer";

class Answerer {
  name = $state(localStorage.getItem(KEY) ?? "");

  set(name: string): void {
    this.name = name;
    localStorage.setItem(KEY, name);
  }
}

export const answerer = new Answerer();
