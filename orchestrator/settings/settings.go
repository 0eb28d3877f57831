// Package settings reads a user's settings file, config.toml, with the defaults of commands for which neither a flag nor the
// environment gives a value. Start with Parse; Settings lists the members of the file.
//
//	[run]
//	allow = ["fs:read", "fs:write", "git:read", "test:run"]
//	agent_env = ["ANTHROPIC_API_KEY"]
//
//	[sprites]
//	url = "https://api.sprites.dev"
//	token_file = "~/.config/lattice/token"
//
// The package is pure: it is given text and returns values, or everything that is wrong with the text at once. Main
// finds the file, and the tokens of token_env and token_file. A secret is never written into
// the file: credentials are named by reference.
package settings

// Settings holds the members of config.toml. The zero value is an empty file: every member has a default elsewhere.
type Settings struct {
	// Schema may name this file's JSON schema, for editors.
	Schema string `json:"$schema,omitempty"`
	// Spritekit is the path of the spritekit that sprites get; as --spritekit.
	Spritekit string `json:"spritekit,omitempty"`
	// Tools are host folders that sprites of the embedded host see read-only at the same path; as --tool.
	Tools []string `json:"tools,omitempty"`
	// Skills are folders of drop-in skills that flows may name and sprites get; as --skill.
	Skills []string `json:"skills,omitempty"`
	// LogLevel is how much lattice serve logs; LATTICE_LOG wins.
	LogLevel Level `json:"log_level,omitempty"`
	// MinIsolation refuses to run anything in sprites of the embedded host that are kept apart by less.
	MinIsolation Isolation `json:"min_isolation,omitempty"`
	// NoRoot has sprites of the embedded host without a root of their own: sudo refuses in them.
	NoRoot bool `json:"no_root,omitempty"`
	// OneUser has sprites of an ordinary user's host with a single user each, although /etc/subuid gives that user more.
	OneUser bool `json:"one_user,omitempty"`
	// Network is the network policy of sprites of the embedded host without a policy of their own, like --network.
	Network Network `json:"network,omitempty"`
	// Image is the image of new sprites of the embedded host: its name, its digest or a path, like --image.
	Image string `json:"image,omitempty"`
	// HostPorts are ports of this machine's loopback interface that sprites reach at host.lattice.internal; as --host-port.
	HostPorts []int `json:"host_ports,omitempty"`

	// Limits bound every sprite of the embedded host; as the flags of lattice sprite serve.
	Limits  Limits  `json:"limits,omitzero"`
	Run     Run     `json:"run,omitzero"`
	Sprites Sprites `json:"sprites,omitzero"`
	Git     Git     `json:"git,omitzero"`
	Serve   Serve   `json:"serve,omitzero"`
	Store   Store   `json:"store,omitzero"`
	Engine  Engine  `json:"engine,omitzero"`
	// Actions are the rules for actions that sprites ask for, by name; those left out have the default.
	Actions map[string]Rule `json:"actions,omitempty"`
	World   World           `json:"world,omitzero"`
	// Budgets limit the money, tokens and time of questions to models and calls of agents. A budget in policy.toml replaces the one here.
	Budgets Budgets `json:"budgets,omitzero"`
	// Models are those that flows ask, by the name of their class.
	Models map[string]Model `json:"models,omitempty"`
	LLM    LLM              `json:"llm,omitzero"`
	// Channels are the channels for notifications about runs, by name.
	Channels map[string]Channel `json:"channels,omitempty"`
	Notify   Notify             `json:"notify,omitzero"`
	// Schedules create intents at due times, by name.
	Schedules map[string]Schedule `json:"schedules,omitempty"`
	// Secrets are credentials that sprites may ask for, by name.
	Secrets map[string]Secret `json:"secrets,omitempty"`
	// Forges are the code hosts where people decide, by name.
	Forges map[string]Forge `json:"forges,omitempty"`
	// Boards are folders of repositories whose task boards lattice serve shows; by default that of the folder in which it starts.
	Boards []string `json:"boards,omitempty"`
	// Flows are folders of flows, NAME.json each, that the page of lattice serve shows and edits; by default the folder flows where it
	// starts.
	Flows []string `json:"flows,omitempty"`
	// Templates is a folder of prompt templates of one's own, ID.json each; flows that name one get its text.
	Templates string `json:"templates,omitempty"`
	// Steps are folders, or single files, of step rules of one's own, by which plans are lowered; --steps adds to them.
	Steps []string `json:"steps,omitempty"`
	// Schemas are folders, or single files, of JSON Schemas of one's own, NAME.json each, that flows may name; --schemas adds to them.
	Schemas []string `json:"schemas,omitempty"`
}

// Limits are the limits of a sprite. Members that are left out have defaults of the embedded host.
type Limits struct {
	// Memory is a size such as "2G"; by default three quarters of this machine's.
	Memory Size `json:"memory,omitempty"`
	// CPUs is how many processors' worth of time a sprite gets; by default as much as others leave.
	CPUs int `json:"cpus,omitempty"`
	// Pids is how many processes and threads it has at a time; by default 4096.
	Pids int `json:"pids,omitempty"`
}

// Run holds defaults of lattice run.
type Run struct {
	// Allow lists the permissions of a run's calls, like --allow, which replaces it.
	Allow []string `json:"allow,omitempty"`
	// AgentEnv names variables that agents get when they are set; --agent-env adds to them.
	AgentEnv []string `json:"agent_env,omitempty"`
	// Keep keeps every run's sprite; as --keep.
	Keep bool `json:"keep,omitempty"`
	// KeepTurns is how many checkpoints of turns of agents a sprite keeps; by default 64. The oldest go first.
	KeepTurns int `json:"keep_turns,omitempty"`
}

// Sprites says where sprites are, when that is not this machine.
type Sprites struct {
	// URL of a Sprites API; SPRITES_API_URL wins, and then the token of this file is not used.
	URL string `json:"url,omitempty"`
	// TokenEnv names the environment variable that holds the token.
	TokenEnv string `json:"token_env,omitempty"`
	// TokenFile is the path of a file that holds the token and that no other user may read; ~/ is the home directory.
	TokenFile string `json:"token_file,omitempty"`
}

// Store says where runs are kept, if not in a file of the state directory.
type Store struct {
	// URL of a PostgreSQL database, without a password; LATTICE_STORE wins.
	URL string `json:"url,omitempty"`
}

// Engine says who decides when the commands of runs are performed, if not the process that leads. Only a lattice that is built with
// Temporal has one; another one refuses to lead.
type Engine struct {
	// Temporal is the address of a Temporal server, such as 127.0.0.1:7233.
	Temporal string `json:"temporal,omitempty"`
	// Namespace of the workflows; by default "default".
	Namespace string `json:"namespace,omitempty"`
	// Queue is the task queue; each store needs one of its own. By default "lattice".
	Queue string `json:"queue,omitempty"`
	// Blobs is a folder, or the URL of a bucket, for values that are too large for the histories of workflows, the same for all nodes; by
	// default the folder blobs in the state directory.
	Blobs string `json:"blobs,omitempty"`
	// CA, Cert and Key are PEM files for a server that speaks TLS: who signed its certificate, and the certificate and key of this
	// client.
	CA   string `json:"ca,omitempty"`
	Cert string `json:"cert,omitempty"`
	Key  string `json:"key,omitempty"`
}

// World says which skills of class world runs call without asking.
type World struct {
	// Allow names the skills; as --approve-world of each run that calls them.
	Allow []string `json:"allow,omitempty"`
}

// Git is who commits when the repository and git's own settings do not say.
type Git struct {
	Name  string `json:"name,omitempty"`
	Email string `json:"email,omitempty"`
}

// Serve holds defaults of lattice serve.
type Serve struct {
	// Idle is how long a leader in the background waits for something to do before it ends.
	Idle Duration `json:"idle,omitempty"`
	// HTTP is the address at which lattice serve serves the page and the interface, such as 127.0.0.1:8080.
	HTTP string `json:"http,omitempty"`
	// Fleet is how often lattice serve makes sprites as fleet.toml next to this file declares them; by default never.
	Fleet Duration `json:"fleet,omitempty"`
}
