package settings

// Schedule creates an intent at each time at which it is due, and after each push if it says so, while a leader serves (lattice
// serve). Times that were missed are made up for by one.
//
//	[schedules.nightly]
//	cron = "30 3 * * mon-fri"
//	kind = "health_detect"
//	repo = "https://github.com/acme/site"
//	input = { command = "make check" }
type Schedule struct {
	// Cron has five fields: minute, hour, day of the month, month and day of the week.
	// With OnPush it may be left out.
	Cron string `json:"cron,omitempty"`
	// OnPush creates the intent after each push to the default branch of Repo, too, if the code host of Repo delivers webhooks.
	OnPush bool `json:"on_push,omitempty"`
	// Zone is the time zone of these times, such as Europe/Berlin; by default this machine's.
	Zone string `json:"zone,omitempty"`
	// Kind is the kind of the intent (lattice intent create --help).
	Kind string `json:"kind"`
	// Repo is the repository of the intent: a URL or an absolute path.
	Repo string `json:"repo,omitempty"`
	// Subject is the subject of the intent; by default the name of the schedule.
	Subject string `json:"subject,omitempty"`
	// Input is the input of the intent's flow.
	Input map[string]any `json:"input,omitempty"`
	// AgentEnv names variables of the leader that agents of the intent's run get; run.agent_env adds to them.
	AgentEnv []string `json:"agent_env,omitempty"`
	// Cooldown is the least time between two intents; due times within it create none. With Severity it is the least time
	// between two remedies.
	Cooldown Duration `json:"cooldown,omitempty"`
	// Severity is the consequence if the check of kind health_detect, doc_detect or improvement_detect fails: critical begins a remedy at once, high asks a person
	// to approve one, medium and low only record the failure. Without it nothing follows.
	Severity Severity `json:"severity,omitempty"`
	// Remedy is the input of the intent that repairs, such as the agent; it needs a repo.
	Remedy map[string]any `json:"remedy,omitempty"`
	// PullRequest has the remedy of a failed check of kind health_detect open a pull request, which its reviews change.
	PullRequest bool `json:"pull_request,omitempty"`
}

// Severity is the weight of a failed check.
type Severity string

const (
	Critical Severity = "critical"
	High     Severity = "high"
	Medium   Severity = "medium"
	Low      Severity = "low"
)

// Repairs reports whether a failed check of this severity leads to an intent.
func (s Severity) Repairs() bool { return s == Critical || s == High }
