// Package view makes the file system of a box. A [Plan] lists the mounts, links and texts; the host opens the mounts that it
// has to, and init carries out the rest. It never follows a link of the sprite.
package view

import (
	"github.com/spritekit/lattice/orchestrator/host/sandbox/spec"
)

// Plan is all that init needs to know to build the box: plain data, made by the host, carried out by init in the order
// given. Paths in the box are relative to its root.
type Plan struct {
	Level    spec.Level   `json:"level,omitempty"`
	Hostname string       `json:"hostname,omitempty"`
	Received bool         `json:"received,omitempty"` // the mounts of the host's files came along as descriptors, in order
	Root     Step         `json:"root"`               // the step that makes /
	Steps    []Step       `json:"steps,omitempty"`
	AsRoot   bool         `json:"as_root,omitempty"`   // commands can be started as root, and as any user
	LoneRoot bool         `json:"lone_root,omitempty"` // commands can be started as root alone
	Limits   spec.Limits  `json:"limits"`
	Without  spec.Without `json:"without,omitempty"`
}

// Step makes one thing in the box's root.
type Step struct {
	Kind     stepKind   `json:"kind"`
	Path     string     `json:"path,omitempty"`
	Source   string     `json:"source,omitempty"`    // bind: host path; link: target; mount: options
	Tree     *spec.Root `json:"tree,omitempty"`      // overlay: its layers
	Content  string     `json:"content,omitempty"`   // text, knob
	Mode     uint32     `json:"mode,omitempty"`      // dir
	File     bool       `json:"file,omitempty"`      // bind: the source is no directory
	Device   bool       `json:"device,omitempty"`    // bind: the source is a device node
	ReadOnly bool       `json:"read_only,omitempty"` // bind, overlay
	Own      bool       `json:"own,omitempty"`       // bind, overlay: the sprite's own files, which belong to Owner
	Local    bool       `json:"local,omitempty"`     // overlay: of usr/local in the layers and of the host's; bind: of usr/local in Source; the host's alone where the kernel refuses
	Late     bool       `json:"late,omitempty"`      // knob: turned with Site.TurnLate
	Suid     bool       `json:"suid,omitempty"`      // bind, overlay: setuid bits and device nodes count, for tests
}

type stepKind string

const (
	stepDir     stepKind = "dir"     // a folder of the sprite's, if there is nothing
	stepLink    stepKind = "link"    // a link, if there is nothing
	stepText    stepKind = "text"    // a file of the box's own, read-only, in no tree; /dev must be there, and not sealed
	stepUsers   stepKind = "users"   // a list of users in the tree, which the box's root changes; one without user sprite is replaced
	StepBind    stepKind = "bind"    // something of the host's
	StepOverlay stepKind = "overlay" // layers of the host's
	stepProc    stepKind = "proc"
	stepTmp     stepKind = "tmpfs"
	stepPts     stepKind = "devpts"
	stepAgain   stepKind = "again" // mounts the box's own Source a second time
	stepKnob    stepKind = "knob"  // write Content to a file that the kernel has, below /proc/sys; without it all is as well as it can be
	stepSeal    stepKind = "seal"  // from here on the mount at Path is read-only
)

// OfHost reports whether the step shows something of the host's, for which a privileged host makes the mount.
func (s Step) OfHost() bool { return s.Kind == StepBind || s.Kind == StepOverlay }

// Mounts lists the steps that begin with a new mount, in the order in which these are made.
func (p Plan) Mounts(those func(Step) bool) (found []Step) {
	for _, s := range append([]Step{p.Root}, p.Steps...) {
		if those(s) {
			found = append(found, s)
		}
	}
	return found
}

// etc lists the files of the host's /etc that a box sees: those for name lookup, TLS, the loader and time zones only.
var etc = []string{
	"ld.so.cache", "ld.so.conf", "ld.so.conf.d", "ssl/certs", "ssl/openssl.cnf", "ssl/cert.pem", "pki/tls/certs", "pki/tls/cert.pem",
	"pki/ca-trust/extracted", "ca-certificates", "ca-certificates.conf", "alternatives", "localtime", "timezone", "resolv.conf", "hosts",
	"host.conf", "gai.conf", "nsswitch.conf", "services", "protocols", "mime.types", "os-release", "bash.bashrc", "profile", "inputrc",
	"locale.alias", "java-17-openjdk", "java-21-openjdk", "perl", "python3",
}

const (
	passwdText = "root:x:0:0:root:/root:/usr/sbin/nologin\n" +
		"sprite:x:1000:1000:sprite:/home/sprite:/bin/sh\n" +
		"nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n"
	groupText = "root:x:0:\ntty:x:5:\nsprite:x:1000:\nnogroup:x:65534:\n"
)
