package protocol

// Parameters of the actions of v1 (DESIGN 20). PushBranch is in event.go, with the names of the actions.

// OpenPR holds the parameters of OPEN_PR: the four of the seed, and the location of the commits. Base and Head are branches, BaseSHA and
// HeadSHA full commit ids, Bundle is a path in the sprite. Repo is the repository of an action; by default it is the run's. The pull
// requests of Also, with the same title and body, are opened after this one.
type OpenPR struct {
	Title   string `json:"title"`
	Body    string `json:"body"`
	Base    string `json:"base"`
	Head    string `json:"head"`
	BaseSHA string `json:"base_sha,omitempty"`
	HeadSHA string `json:"head_sha,omitempty"`
	Bundle  string `json:"bundle,omitempty"`
	SHA256  string `json:"sha256,omitempty"`
	Repo    string `json:"repo,omitempty"`

	Also []AlsoPush `json:"also,omitempty"`
}

// AlsoPush is a push to a further repository, as part of a PUSH_BRANCH or an OPEN_PR. Base and Head are full commit ids, Bundle
// is a path in the sprite. Into is the branch to merge into, of an OPEN_PR; by default it is the default branch.
type AlsoPush struct {
	Repo   string `json:"repo"`
	Branch string `json:"branch"`
	Base   string `json:"base"`
	Head   string `json:"head"`
	Bundle string `json:"bundle"`
	SHA256 string `json:"sha256"`
	Into   string `json:"into,omitempty"`
}

// MaxAlso is how many further repositories one action may push to.
const MaxAlso = 15

// PostComment holds the parameters of POST_COMMENT. Number identifies an issue or a pull request.
type PostComment struct {
	Number int64  `json:"number"`
	Body   string `json:"body"`
	Repo   string `json:"repo,omitempty"`
}

// LabelIssue holds the parameters of LABEL_ISSUE: the labels to add.
type LabelIssue struct {
	Number int64    `json:"number"`
	Labels []string `json:"labels"`
	Repo   string   `json:"repo,omitempty"`
}

// OpenIssues holds the parameters of OPEN_ISSUES: an issue for each task of a document, and then one for each epic, which lists
// its tasks. Document and the keys identify the issues, so that another round opens only those that are new. Number is the issue
// that describes the project; it gets a comment with the links.
type OpenIssues struct {
	Document string      `json:"document"`
	Issues   []TaskIssue `json:"issues"`
	Number   int64       `json:"number,omitempty"`
	Repo     string      `json:"repo,omitempty"`
}

// TaskIssue is an issue of OPEN_ISSUES.
type TaskIssue struct {
	Key   string `json:"key"`
	Epic  string `json:"epic,omitempty"`
	Title string `json:"title"`
	Body  string `json:"body,omitempty"`
}

// MaxIssues is how many issues one action may open, besides those of the epics.
const MaxIssues = 200

// Limits of the parameters of actions. They are in bytes, those of a code host for its texts.
const (
	MaxTitle       = 256
	MaxBody        = 65536
	MaxLabel       = 50
	MaxLabels      = 100
	MaxNotifyTitle = 200
	MaxNotifyBody  = 8 << 10
)

// Levels of a notification.
const (
	LevelInfo    = "info"
	LevelWarning = "warning"
	LevelError   = "error"
)

// NotifyUser holds the parameters of NOTIFY_USER. If the channel is empty the orchestrator chooses one.
type NotifyUser struct {
	Channel string `json:"channel,omitempty"`
	Level   string `json:"level"`
	Title   string `json:"title"`
	Body    string `json:"body"`
	Link    string `json:"link,omitempty"`
}

// LeasedVariable is the environment variable of a call that names the variables with leased secrets, separated by commas.
const LeasedVariable = "LATTICE_LEASED"

// FetchCredential holds the parameters of FETCH_CREDENTIAL. TTLS is in seconds.
type FetchCredential struct {
	Name    string  `json:"name"`
	Purpose string  `json:"purpose"`
	Scope   string  `json:"scope,omitempty"`
	TTLS    float64 `json:"ttl_s,omitempty"`
}

// MaxArguments is the size in bytes of the arguments that a person is asked about; an agent may not use a tool with more.
const MaxArguments = 64 << 10

// ToolAllowed is the result of USE_TOOL. SHA256 is that of the request that was allowed.
type ToolAllowed struct {
	SHA256 string `json:"sha256"`
}

// UseTool holds the parameters of USE_TOOL: an agent asks for permission to use one of its tools. All but the agent's name is
// the agent's word. Arguments is JSON, and SHA256 its digest before known secrets were taken out: an approval holds for
// requests with this digest and for no others.
type UseTool struct {
	Agent     string `json:"agent"`
	Kind      string `json:"kind"` // read, edit, delete, move, search, execute, think, fetch, switch_mode or other
	Name      string `json:"name,omitempty"`
	Title     string `json:"title"`
	Arguments string `json:"arguments"`
	SHA256    string `json:"sha256"`
}
