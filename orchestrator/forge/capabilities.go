package forge

// Capability is something that not every code host can do.
type Capability string

// The capabilities.
const (
	CheckRuns        Capability = "check-runs"
	DraftPulls       Capability = "draft-pull-requests"
	ReviewThreads    Capability = "review-threads"
	ThreadResolution Capability = "thread-resolution"
	Redelivery       Capability = "webhook-redelivery"
	LabelCreation    Capability = "label-creation"
	AppTokens        Capability = "app-tokens"
	RoleLookup       Capability = "role-lookup"
	Reactions        Capability = "reactions"
	TriggerLabels    Capability = "trigger-labels"
	Projects         Capability = "projects"
)

// Support says whether a code host has a capability.
type Support struct {
	Capability Capability `json:"capability"`
	Has        bool       `json:"has"`
	// Instead says how lattice manages without the capability, or the condition under which there is one.
	Instead string `json:"instead,omitempty"`
}

var support = map[Kind][]Support{
	GitHub: {
		{CheckRuns, true, "only an App may write them; with any other token lattice writes a commit status"},
		{DraftPulls, true, "a repository that refuses drafts gets an ordinary pull request"},
		{ReviewThreads, true, ""},
		{ThreadResolution, true, "when lattice has pushed a change of the lines; other threads stay open, and its reply says so"},
		{Redelivery, true, "the account needs the role admin to see which deliveries failed"},
		{LabelCreation, true, ""},
		{AppTokens, true, ""},
		{RoleLookup, true, "the account needs the role write"},
		{Reactions, true, ""},
		{TriggerLabels, false, "labels decide nothing; /lattice plan in a comment begins work"},
		{Projects, false, "issues and labels take their place"},
	},
	Gitea: {
		{CheckRuns, false, "a commit status"},
		{DraftPulls, true, `the title begins with "WIP: "`},
		{ReviewThreads, false, "a reply is a comment on the pull request that quotes its place"},
		{ThreadResolution, false, "threads stay open: the API cannot resolve them"},
		{Redelivery, false, "lattice asks for new comments and reviews now and then"},
		{LabelCreation, false, "lattice creates a missing label before it adds it"},
		{AppTokens, false, "a token of an account"},
		{RoleLookup, true, "the account needs the role admin to read the roles of others, and so to obey commands in comments"},
		{Reactions, true, ""},
		{TriggerLabels, false, "labels decide nothing; /lattice plan in a comment begins work"},
		{Projects, false, "issues and labels take their place"},
	},
}

// Capabilities returns the row of the table for a kind of code host.
func Capabilities(k Kind) []Support { return support[k] }
