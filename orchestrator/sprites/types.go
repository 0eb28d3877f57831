package sprites

import (
	"io"
	"time"
)

// Sprite is the sprite object of the API.
type Sprite struct {
	ID           string            `json:"id"`
	Name         string            `json:"name"`
	Organization string            `json:"organization"`
	URL          string            `json:"url"`
	Status       string            `json:"status"` // cold | warm | running
	Labels       []string          `json:"labels,omitempty"`
	CreatedAt    time.Time         `json:"created_at"`
	UpdatedAt    time.Time         `json:"updated_at"`
	Environment  map[string]string `json:"environment,omitempty"`
	URLSettings  *URLSettings      `json:"url_settings,omitempty"`
	Config       *Config           `json:"config,omitempty"`
	// When it last became running, and warm; nil = never.
	LastRunningAt *time.Time `json:"last_running_at"`
	LastWarmingAt *time.Time `json:"last_warming_at"`
	// Of the embedded host only.
	Network   *Network `json:"network,omitempty"`
	Isolation string   `json:"isolation,omitempty"` // how firmly it is kept apart: ns-root, ns-user or process
	// Downgrade says why Isolation is no stronger than a plain process tree; MinIsolation is the level that the sprite needs.
	Downgrade     *Downgrade `json:"isolation_downgrade,omitempty"`
	MinIsolation  string     `json:"min_isolation,omitempty"`
	Limits        []Limit    `json:"limits,omitempty"`
	WorkspacePath string     `json:"workspace_path,omitempty"` // host path of /workspace, for hints; in overlays it holds the changes since the last checkpoint
	Storage       *Storage   `json:"storage,omitempty"`
	Degraded      string     `json:"degraded,omitempty"` // why the sprite's files cannot be used, "" when they can
	Image         string     `json:"image,omitempty"`    // digest of the image that it started from
	// Tools and Skills are the paths that were asked for when it was made.
	Tools  []string `json:"tools,omitempty"`
	Skills []string `json:"skills,omitempty"`
}

// Uses returns how much a running sprite uses of what a limit bounds, 0 if that is not known.
func (s Sprite) Uses(limit string) float64 {
	for _, l := range s.Limits {
		if l.Limit == limit {
			return l.Used
		}
	}
	return 0
}

// Downgrade says why sprites are isolated by less than namespaces, and names the remedy.
type Downgrade struct {
	Reason string `json:"reason"`
	Remedy string `json:"remedy"`
}

// Limit is how much a sprite may use of one thing: pids, memory (bytes), cpu (processors) or tmp-size (bytes).
type Limit struct {
	Limit string  `json:"limit"`
	Max   float64 `json:"max,omitempty"` // 0: as much as others leave
	// Used is how much a running sprite uses, of cpu the seconds of processor time since it started; 0 if the kernel does not
	// count it.
	Used float64 `json:"used,omitempty"`
	By   string  `json:"by,omitempty"`  // the mechanism that keeps it; "" if none does
	Why  string  `json:"why,omitempty"` // why none does, and the remedy
}

// Network says how firmly a sprite's network policy is kept: "enforced" if no program can bypass it, "advisory" if it binds
// only programs that use the proxy of their environment, "none". Preset is the policy's name, or "custom".
type Network struct {
	Enforcement string `json:"enforcement"`
	Preset      string `json:"preset"`
	Why         string `json:"why,omitempty"` // why it is not enforced
	// HostPorts are the ports of the host's machine that the sprite reaches.
	HostPorts []uint16 `json:"host_ports,omitempty"`
}

// URLSettings say who may open a sprite's URL.
type URLSettings struct {
	Auth          string `json:"auth,omitempty"`           // "sprite" (the default) or "public"
	PrivateAccess string `json:"private_access,omitempty"` // "admins" or "org_users"
}

// Config is the machine that was asked for; 0 and "" leave it to the host.
type Config struct {
	RAMMB     int    `json:"ram_mb,omitempty"`
	CPUs      int    `json:"cpus,omitempty"`
	Region    string `json:"region,omitempty"`
	StorageGB int    `json:"storage_gb,omitempty"`
	Pids      int    `json:"pids,omitempty"` // processes and threads; of the embedded host only
}

// NoImage is the Create.Image of a sprite that sees this machine's own system, regardless of the host's default.
const NoImage = "none"

// Create is the body of POST /v1/sprites.
type Create struct {
	Name        string            `json:"name"`
	Environment map[string]string `json:"environment,omitempty"`
	Labels      []string          `json:"labels,omitempty"`
	URLSettings *URLSettings      `json:"url_settings,omitempty"`
	Config      *Config           `json:"config,omitempty"`
	Runtime     string            `json:"runtime,omitempty"` // "default" or "dev"
	// WaitForCapacity waits for room where the host runs no more sprites at a time, instead of being refused.
	WaitForCapacity bool `json:"wait_for_capacity,omitempty"`
	// MinIsolation refuses to make a sprite, and later to run anything in it, where it would be kept apart by less: ns-root,
	// ns-user or process; of the embedded host only.
	MinIsolation string `json:"min_isolation,omitempty"`
	// Network is the preset of a sprite without a policy of its own: defaults, none or open; of the embedded host only.
	Network string `json:"network,omitempty"`
	// HostPorts are ports of the host's machine that the sprite reaches, in place of the host's own list; nil leaves it to
	// the host. Of the embedded host only.
	HostPorts []uint16 `json:"host_ports,omitzero"`
	// Spritekit is the path of the spritekit, on the host's machine, that the sprite has in /skills in place of the host's;
	// of the embedded host only.
	Spritekit string `json:"spritekit,omitempty"`
	// Tools are paths of the host's machine that the sprite sees read-only; of the embedded host only.
	Tools []string `json:"tools,omitempty"`
	// Skills are folders of the host's machine that the sprite has in /skills, under their own names; as Tools.
	Skills []string `json:"skills,omitempty"`
	// Image is the sprite's image: the name or digest of an image of the host, an absolute path to import one from, or NoImage
	// for this machine's own system; "" is the host's default. Only the embedded host knows it.
	Image string `json:"image,omitempty"`
}

// Exec describes one command. A nil Stdin is an empty one. A Stdin whose Read blocks for ever (a terminal) may be left
// with one read outstanding when the command ends.
type Exec struct {
	Cmd                   []string
	Env                   []string // KEY=VALUE, on top of the sprite's own
	Dir                   string
	TTY                   bool
	Rows, Cols            int
	Stdin                 io.Reader
	Stdout, Stderr        io.Writer       // Stderr unused with TTY
	MaxRunAfterDisconnect time.Duration   // 0 = the server's default, negative = for ever
	Resize                <-chan Size     // TTY only, may be nil
	Signals               <-chan string   // "INT", "TERM" … forwarded, may be nil
	OnSession             func(id string) // called once with the session's id if the server tells it, may be nil
}

// Size of a terminal.
type Size struct{ Rows, Cols int }

// Session is one command that runs in a sprite.
type Session struct {
	ID             string    `json:"id"`
	Created        time.Time `json:"created"`
	Command        string    `json:"command"`
	Workdir        string    `json:"workdir"`
	TTY            bool      `json:"tty"`
	BytesPerSecond float64   `json:"bytes_per_second"`
	IsActive       bool      `json:"is_active"`
	LastActivity   time.Time `json:"last_activity"`
}

// Current is the id of the pseudo checkpoint that stands for a sprite's present state in listings.
const Current = "Current"

// Checkpoint is one checkpoint of a sprite.
type Checkpoint struct {
	ID         string    `json:"id"`
	CreateTime time.Time `json:"create_time"`
	SourceID   string    `json:"source_id,omitempty"` // checkpoint that the state descends from
	Comment    string    `json:"comment,omitempty"`
	IsAuto     bool      `json:"is_auto,omitempty"`
	Durable    bool      `json:"durable,omitempty"`
	// Only of the embedded host: the system went down before the checkpoint was durable, and its files have not been verified
	// since; and the bytes that it holds beyond the checkpoint that it descends from.
	Unverified bool   `json:"unverified,omitempty"`
	Bytes      int64  `json:"bytes,omitempty"`
	Health     string `json:"health"` // "" if it can be restored, else the fault
}

// FileInfo is one entry of a directory listing.
type FileInfo struct {
	Name    string    `json:"name"`
	Path    string    `json:"path"`
	Type    string    `json:"type"` // file | directory | symlink
	Size    int64     `json:"size"`
	Mode    string    `json:"mode"`
	ModTime time.Time `json:"modTime"`
	IsDir   bool      `json:"isDir"`
	// PathBytes is Path as it is, when that is no UTF-8; of the embedded host only.
	PathBytes []byte `json:"pathBytes,omitempty"`
}

// FileEvent is one message of a watch on files.
type FileEvent struct {
	Type      string    `json:"type"`            // subscribed | event | error
	Paths     []string  `json:"paths,omitempty"` // of subscribed
	Path      string    `json:"path,omitempty"`
	Event     string    `json:"event,omitempty"` // create | write | remove | rename | chmod; a rename names the old path
	Timestamp time.Time `json:"timestamp"`
	Size      int64     `json:"size"`
	IsDir     bool      `json:"isDir"`
	Message   string    `json:"message,omitempty"` // of error: the path that is not watched, or the events that were missed
}

// Progress is one line of the NDJSON streams that checkpoint and restore answer with. The line of type "complete" names
// the checkpoint; a line of type "error" means failure although the status was 200.
type Progress struct {
	Type         string    `json:"type"` // info | error | complete
	Data         string    `json:"data,omitempty"`
	Error        string    `json:"error,omitempty"`
	CheckpointID string    `json:"checkpoint_id,omitempty"`
	Time         time.Time `json:"time"`
}

// Stream numbers that prefix each binary message of an exec without TTY, and each frame of an exec over POST.
const (
	StreamStdin  = 0 // client → server
	StreamStdout = 1 // server → client
	StreamStderr = 2 // server → client
	StreamExit   = 3 // server → client, one byte: the exit code
	StreamEOF    = 4 // client → server, end of stdin, no payload
)

// Control is a text message of an exec socket; which members are set depends on Type. Unknown types are ignored by
// both sides.
//
//	server → client   session_info, exit, debug
//	client → server   resize, signal
type Control struct {
	Type      string `json:"type"`
	SessionID string `json:"session_id,omitempty"`
	Command   string `json:"command,omitempty"`
	Created   int64  `json:"created,omitempty"` // Unix seconds
	Cols      int    `json:"cols,omitempty"`
	Rows      int    `json:"rows,omitempty"`
	IsOwner   bool   `json:"is_owner,omitempty"`
	TTY       bool   `json:"tty,omitempty"`
	ExitCode  *int   `json:"exit_code,omitempty"`
	Signal    string `json:"signal,omitempty"`
	Msg       string `json:"msg,omitempty"`
}

// Change is one path that differs between two checkpoints. An added path lacks the old members, a deleted one the new
// members.
type Change struct {
	Path    string `json:"path"`
	Change  string `json:"change"` // added | modified | deleted | type
	Type    string `json:"type,omitempty"`
	Size    int64  `json:"size,omitempty"`
	Mode    string `json:"mode,omitempty"`
	OldType string `json:"old_type,omitempty"`
	OldSize int64  `json:"old_size,omitempty"`
	OldMode string `json:"old_mode,omitempty"`
}

// Usage is the space that a sprite takes on its host's disk.
type Usage struct {
	Driver          string `json:"driver"`  // overlay | btrfs | cas
	Depth           int    `json:"depth"`   // layers that its files are read through
	Entries         int64  `json:"entries"` // of the top layer
	Bytes           int64  `json:"bytes"`
	Checkpoints     int    `json:"checkpoints"`
	CheckpointBytes int64  `json:"checkpoint_bytes"` // as far as it is counted yet; shared blocks are counted twice
	DiskFree        uint64 `json:"disk_free"`
	DiskTotal       uint64 `json:"disk_total"`
	DiskLow         string `json:"disk_low,omitempty"` // why nothing more is made, "" when there is room
}

// Verified is the outcome of reading a checkpoint's files again.
type Verified struct {
	ID      string   `json:"id"`
	OK      bool     `json:"ok"`
	Damage  string   `json:"damage,omitempty"` // the checkpoint is not restored any more
	Digests []string `json:"digests"`          // of its layers, topmost first
	Entries int64    `json:"entries"`
	Bytes   int64    `json:"bytes"`
}

// Storage says how a sprite's files are kept, of the embedded host only.
type Storage struct {
	Driver string `json:"driver"` // overlay | btrfs | cas
	// RenameDir is "ok", or "exdev" where rename(2) refuses to rename folders that lie in a layer below: those of an image, or
	// older than the last checkpoint of a large sprite, where an ordinary user runs the host. mv and the like copy them then.
	RenameDir string `json:"rename_dir"`
}
