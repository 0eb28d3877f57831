package core

import (
	"context"
	"net/http"
	"time"

	"github.com/spritekit/lattice/orchestrator/host/sandbox/spec"

	"github.com/rs/zerolog"

	"github.com/spritekit/lattice/orchestrator/host/egress"
	"github.com/spritekit/lattice/orchestrator/host/layer"
)

// Config of a host.
type Config struct {
	Dir     string         // where everything is kept; made when missing; one host at a time
	Self    string         // executable that becomes a sandbox's init, unless this program has a smaller one in it: lattice itself
	Skills  string         // host directory shown read-only at /skills; "" gives each sprite an empty one of its own to write
	Token   string         // bearer token that requests must carry; "" asks for none
	Tools   []string       // further host paths shown read-only at the same path, in sprites without an image; missing ones are left out
	Log     zerolog.Logger // events of sprites
	Env     []string       // KEY=VALUE of every command, on top of PATH, HOME and the like
	Network Network        // network access of sprites
	URLs    string         // loopback address on which sprites' URLs are served, such as 127.0.0.1:0; "" for none
	Limits  Limits         // of how many sprites are made, and run
	// AskedTools are like Tools, and shown in sprites with an image, too.
	AskedTools []string
	// AllowHosts are names of this machine, besides localhost, by which a reverse proxy hands requests on: the API takes them
	// as a Host header, and NAME below one of them is the URL of sprite NAME.
	AllowHosts []string
	// Control offers control channels, through which clients run one command after another over one socket; see control.go of package execs
	// for why hosts do without.
	Control bool
	// WarmAfter is how long a sprite is idle before its processes are frozen, and ColdAfter how much longer before its
	// sandbox ends: 0 means 30 s and 10 minutes, a negative time never. See lifecycle.go of package fleet for the meaning of idle.
	WarmAfter, ColdAfter time.Duration
	// Shared is a directory, perhaps of several hosts, with caches that WarmGo fills; "" for none. Sprites read the files in
	// it and cannot change it.
	Shared string
	// MinIsolation refuses to run anything in sprites that this machine cannot keep apart as firmly; "" asks for nothing.
	MinIsolation spec.Level
	// NoRoot has sprites without a root of their own: sudo refuses.
	NoRoot bool
	// OneUser has sprites of an ordinary user without sub-ids: root of a sprite is then its one user.
	OneUser bool
	// Box bounds what each sprite uses, if it asks for no less; 0 members are defaults. Sprite objects tell the effective limits.
	Box spec.Limits
	// Storage is how new sprites are kept; "" chooses the best that works here. Those that exist stay as they are.
	Storage layer.Kind
	// Reserve is how many bytes of the disk stay free: below, nothing is made that needs more. 0 is a twentieth of it, or
	// 512 MiB where that is more; negative is none.
	Reserve int64
	// CheckTool judges a path that a request wants a new sprite to see, and returns it cleaned. Nil refuses all.
	CheckTool func(path string) (string, error)
	// KeepSkill judges a folder that a request wants a new sprite to have in /skills, and returns where it is kept from
	// then on. Nil refuses all. SkillsWith returns a directory like base that has kept folders, too.
	KeepSkill  func(path string) (string, error)
	SkillsWith func(base string, kept []string) (string, error)
	// InstallSkills returns a directory like Skills that is made of the spritekit at a path that a request names for a new
	// sprite. Nil refuses all.
	InstallSkills func(spritekit string) (string, error)
	// LetHostPorts lets requests list the ports of this machine that a new sprite reaches.
	LetHostPorts bool
	// BeforeCheckpoint is called before a checkpoint of a sprite is taken, a fork of its present state included, and before a
	// restore, which keeps the present state as a checkpoint. It may call the host, and it may be nil. After an error nothing is
	// kept; a restore goes on, and the comment of the checkpoint of the present state names the error.
	BeforeCheckpoint func(ctx context.Context, sprite string) error
	// Image is the image of sprites whose creation names none: one that is there, or an absolute path, which is
	// imported when it is first needed; "" and "none" are this machine's own system.
	Image string
	// ImportImages lets requests import images from any path of this machine. Without it they use images that ImportImage has imported.
	ImportImages bool
}

// Limits are quotas like those of remote services, for trying how clients take a refusal. Zero values limit nothing.
type Limits struct {
	Creations int           // sprites made per Window
	Window    time.Duration // a minute when 0
	Running   int           // sprites that run at a time; warm ones do not count
}

// Network configures the network access of sprites.
type Network struct {
	// Preset is the policy of sprites that have none of their own. "" leaves all sprites on this machine's network, under
	// no policy at all.
	Preset egress.Preset
	// HostPorts are ports of this machine's loopback interface that sprites reach as egress.HostName. Requests list others
	// for a new sprite where Config.LetHostPorts says so.
	HostPorts []uint16
	// Models answers the requests of a sprite to egress.ModelName; nil for none.
	Models func(sprite string) http.Handler
	// Upstream is the way out; the zero value is egress.Direct.
	Upstream egress.Upstream
}
