// Package manifests is the contract data that both binaries embed: one skill.json per built-in skill, ready-made
// flows and JSON schemas. Skill is the type to look at first: ParseSkill reads an untrusted one, Lookup finds a
// built-in one, CheckInput checks an input against it, and Effective returns the permissions of a call with that input. At
// run time the package reads only its embedded files. It does not know how a skill runs.
//
// There is no general dry_run input. A skill has one where the answer differs from the input (fs.edit, fs.patch, git.add,
// git.push); elsewhere a sprite is forked or rewound instead, which also covers programs that have no dry run.
package manifests

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"sync"
)

// Class says how far the effects of a skill reach (DESIGN 14); it decides how a call that was cut off continues.
type Class string

const (
	ClassRead       Class = "read"       // changes nothing; may run again
	ClassIdempotent Class = "idempotent" // may run again with the same outcome
	ClassSprite     Class = "sprite"     // effects stay in the sprite's files; restored, then run again
	ClassWorld      Class = "world"      // outside effects; never run again without a person
)

// reachRank orders the classes by reach; 0 is no class.
func (c Class) reachRank() int {
	return 1 + slices.Index([]Class{ClassRead, ClassIdempotent, ClassSprite, ClassWorld}, c)
}

// Skill is a skill.json. In the file inputs and outputs are arrays of names or of objects; here they are objects.
// A manifest without the member "inputs" (nil) takes any input; an empty array takes none.
type Skill struct {
	Name         string          `json:"name"`
	Description  string          `json:"description,omitempty"`
	Version      string          `json:"version,omitempty"`
	Inputs       []Field         `json:"inputs,omitzero"`
	Outputs      []Field         `json:"outputs,omitzero"`
	InputSchema  json.RawMessage `json:"input_schema,omitempty"`
	OutputSchema json.RawMessage `json:"output_schema,omitempty"`
	Permissions  []string        `json:"permissions"`
	// Optional permissions are handed to a call where the run was granted them, and asked for by the skill where only
	// its input shows that it needs one: git.clone needs net for URLs, not for bundles.
	OptionalPermissions []string `json:"optional_permissions,omitempty"`
	ProducesEvents      bool     `json:"produces_events"`
	SideEffect          Class    `json:"side_effect,omitempty"` // default world
	// Continues says that a call of class sprite that was cut off is made again with the files as they are. A skill that cannot
	// go on then fails with protocol.CodeCutOff.
	Continues bool `json:"continues,omitempty"`
	// Destructive says whether the skill may overwrite or delete existing data, as a hint to agents and their users.
	// Default: true for the classes sprite and world.
	Destructive *bool             `json:"destructive,omitempty"`
	TimeoutS    float64           `json:"timeout_s,omitempty"`
	Exec        []string          `json:"exec,omitempty"`
	Examples    []json.RawMessage `json:"examples,omitempty"`
	Variants    *Variants         `json:"variants,omitempty"`
}

// Field is one input or output. Type is any, string, integer, number, boolean, map, array or array<T>. An
// input is required unless it has a default or says otherwise; an output is not unless it says so.
type Field struct {
	Name        string          `json:"name"`
	Type        string          `json:"type"`
	Required    bool            `json:"required"`
	Description string          `json:"description,omitempty"`
	Default     json.RawMessage `json:"default,omitempty"`
}

// Variants lets the value of one string input choose permissions and class: git.push asks by default and pushes only
// with mode "direct".
type Variants struct {
	Input   string             `json:"input"`
	Default string             `json:"default"`
	Cases   map[string]Variant `json:"cases"`
}

// Variant replaces the manifest's permissions and class.
type Variant struct {
	Permissions []string `json:"permissions"`
	SideEffect  Class    `json:"side_effect"`
}

// Permissions lists the permissions that this version knows (DESIGN 16), sorted. Manifests of others may name more.
func Permissions() []string {
	return []string{
		"agent:run", "credential:fetch", "env:propose", "exec", "fs:read", "fs:write", "git:fetch", "git:push",
		"git:read", "git:write", "github:write", "net", "test:run", "user:notify", "web:read",
	}
}

//go:embed */skill.json
var files embed.FS

// builtin knows our own manifests by name; each is read when it is first asked for, because a process that serves one
// skill needs one. They are checked by the tests of this package, so a broken one is a broken build and panics.
var builtin = sync.OnceValue(func() map[string]func() Skill {
	folders, err := files.ReadDir(".")
	if err != nil {
		panic(err)
	}
	read := make(map[string]func() Skill, len(folders))
	for _, folder := range folders {
		name := folder.Name()
		read[name] = sync.OnceValue(func() Skill { return mustRead(name) })
	}
	return read
})

func mustRead(name string) Skill {
	data, err := files.ReadFile(name + "/skill.json")
	if err != nil {
		panic(err)
	}
	s, err := ParseSkill(data)
	if err != nil {
		panic(fmt.Sprintf("%s: %v", name, err))
	}
	if s.Name != name {
		panic(fmt.Sprintf("%s: the skill is called %s", name, s.Name))
	}
	return s
}

// Skills returns the manifests of the built-in skills, sorted by name. The values that they point to are shared and read-only.
func Skills() []Skill {
	var all []Skill
	for _, name := range slices.Sorted(maps.Keys(builtin())) {
		all = append(all, builtin()[name]())
	}
	return all
}

// Lookup finds the manifest of a built-in skill.
func Lookup(name string) (Skill, bool) {
	read, ok := builtin()[name]
	if !ok {
		return Skill{}, false
	}
	return read(), true
}

// Raw returns the bytes of a built-in skill's skill.json, nil when there is no such skill.
func Raw(name string) []byte {
	if !isSkillName(name) {
		return nil
	}
	data, err := files.ReadFile(name + "/skill.json")
	if err != nil {
		return nil
	}
	return data
}

// Digest is the sha256 hex of s in its normal form, so that two files that say the same have one digest.
func (s Skill) Digest() string {
	data, err := json.Marshal(s)
	if err != nil { // only possible for a Skill made by hand with broken raw members
		data = fmt.Appendf(nil, "%#v", s)
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// Effective returns the class and the permissions of a call with this input, variants applied. An input that chooses
// no known variant gets the widest class and the permissions of all variants.
func (s Skill) Effective(input map[string]json.RawMessage) (Class, []string) {
	if s.Variants == nil {
		return s.effectiveClass(), s.Permissions
	}
	choice := s.Variants.Default
	if raw, ok := input[s.Variants.Input]; ok && !isNull(raw) {
		if json.Unmarshal(raw, &choice) != nil {
			choice = ""
		}
	}
	if v, ok := s.Variants.Cases[choice]; ok {
		return v.SideEffect, v.Permissions
	}
	class, permissions := s.effectiveClass(), slices.Clone(s.Permissions)
	for _, v := range s.Variants.Cases {
		if v.SideEffect.reachRank() > class.reachRank() {
			class = v.SideEffect
		}
		permissions = append(permissions, v.Permissions...)
	}
	slices.Sort(permissions)
	return class, slices.Compact(permissions)
}

// AllPermissions lists the permissions that calls with any input may need: those of all variants and the optional ones, too.
func (s Skill) AllPermissions() []string {
	all := slices.Concat(s.Permissions, s.OptionalPermissions)
	if s.Variants != nil {
		for _, v := range s.Variants.Cases {
			all = append(all, v.Permissions...)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// Destroys reports whether a call may overwrite or delete existing data.
func (s Skill) Destroys() bool {
	if s.Destructive != nil {
		return *s.Destructive
	}
	return s.effectiveClass().reachRank() >= ClassSprite.reachRank()
}

func (s Skill) effectiveClass() Class {
	if s.SideEffect == "" {
		return ClassWorld
	}
	return s.SideEffect
}

// Problem is one rule that a manifest or an input breaks, with the JSON pointer of the member ("" is the document).
type Problem struct {
	Pointer string `json:"pointer"`
	Message string `json:"message"`
}

func isNull(raw json.RawMessage) bool { return string(bytes.TrimSpace(raw)) == "null" }
