// Talking to the server: one job at a time is followed, and what goes wrong is said in the page's own words.
const secret = () => {
  const link = new URLSearchParams(location.hash.slice(1));
  if (link.has("token")) {
    sessionStorage.setItem("token", link.get("token"));
    link.delete("token");
    history.replaceState(null, "", `#${link}`);
  }
  return sessionStorage.getItem("token");
};
const token = secret();

const WORDS = {
  401: "This page needs the server's token. Open the link with #token=… that belongs to it.",
  403: "The server does not answer to this page. Open the address that it printed when it started.",
  404: "The server has forgotten this result; ask again.",
  413: "This is too long for one request. Shorten it, or take fewer rows.",
  429: "The server is busy with other questions. Try again in a moment.",
};

export const call = async (path, options = {}) => {
  const headers = { ...(options.body ? { "Content-Type": "application/json" } : {}), ...(token ? { Authorization: `Bearer ${token}` } : {}) };
  let response;
  try {
    response = await fetch(path, { ...options, headers });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Error("The server does not answer. Is it still running?");
  }
  if (response.ok) return response;
  let answer = {};
  try {
    answer = await response.json();
  } catch {
    /* not JSON: the number must do */
  }
  throw new Wrong(WORDS[response.status] || answer.words || `The server failed (${response.status}).`, answer);
};

// What went wrong in the page's words; `field` is the choice it is about, `more` the library's words where ours say little.
export class Wrong extends Error {
  constructor(words, answer = {}) {
    super(words);
    this.field = answer.field || null;
    this.more = answer.more ? answer.detail || answer.error : null;
  }
}

// how far a job is, in words
export const howFar = (now) => {
  const passes = now.points === 1 ? "1 pass" : `${now.points} passes`;
  const block = now.block ? `, block ${now.block[0]} of ${now.block[1]}` : "";
  const at = now.stage ? `${now.stage} …` : now.points ? passes + block : "reading";
  return now.state === "waiting" ? `waiting, ${now.ahead} before this` : `${at}, ${now.seconds.toFixed(0)} s`;
};

export const facts = async () => (await call("/api/health")).json();
const pause = (ms) => new Promise((done) => setTimeout(done, ms));

export class Stopped extends Error {}

// A question under way: `tell` hears how far it is, `stop` calls it off. Resolves to the finished job.
export class Job {
  constructor(kind, body) {
    this.kind = kind;
    this.body = body;
    this.id = null;
    this.stopped = false;
    this.warnings = [];
  }

  async run(tell = () => {}) {
    const task = await (await call(`/api/${this.kind}?wait=false`, { method: "POST", body: JSON.stringify(this.body) })).json();
    this.id = task.id;
    if (this.stopped) await this.stop();
    for (let wait = 60; ; wait = Math.min(wait * 1.4, 600)) {
      const now = await (await call(`/api/jobs/${this.id}`)).json();
      if (now.state === "done") {
        this.warnings = now.warnings;
        return this;
      }
      if (now.state === "cancelled") throw new Stopped("stopped");
      if (now.state === "failed") throw new Wrong(now.words, now);
      tell(now);
      await pause(wait);
    }
  }

  async stop() {
    this.stopped = true;
    if (this.id) await call(`/api/jobs/${this.id}`, { method: "DELETE" }).catch(() => {});
  }

  async as(format) {
    return call(`/api/jobs/${this.id}/result?format=${format}`);
  }
}
