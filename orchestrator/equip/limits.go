package equip

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	"github.com/spritekit/lattice/orchestrator/host/sandbox/spec"

	"github.com/spf13/cobra"

	"github.com/spritekit/lattice/orchestrator/settings"
	"github.com/spritekit/lattice/orchestrator/sprites"
	"github.com/spritekit/lattice/spritekit/fault"
)

// LimitOptions are the flags that bound a sprite of the embedded host, and ask how firmly it is kept apart.
type LimitOptions struct {
	memory byteSize
	cpus   int
	pids   int
	Least  level
}

// AddFlags adds the flags; whose begins their sentences, such as "the new sprite's".
func (o *LimitOptions) AddFlags(cmd *cobra.Command, whose string) {
	cmd.Flags().Var(&o.memory, "memory", whose+" memory, such as 512M or 2G (default: three quarters of this machine's)")
	cmd.Flags().IntVar(&o.cpus, "cpus", 0, whose+" share of the processors, in processors (default: as much as others leave)")
	cmd.Flags().IntVar(&o.pids, "pids", 0, whose+" processes and threads (default: 4096)")
	cmd.Flags().Var(&o.Least, "min-isolation", "refuse to run anything with weaker isolation than `LEVEL`: ns-root, ns-user or process")
	_ = cmd.RegisterFlagCompletionFunc("min-isolation", cobra.FixedCompletions(levelNames(), cobra.ShellCompDirectiveNoFileComp)) // the flag exists
}

func (o *LimitOptions) Check() error {
	if o.cpus < 0 || o.pids < 0 {
		return fault.BadInput("bad_limit", "--cpus and --pids must not be negative").WithHint("leave them out for the default")
	}
	return nil
}

// Config returns the limits as a request for a new sprite, nil for none.
func (o *LimitOptions) Config() *sprites.Config {
	c := sprites.Config{RAMMB: int((o.memory + 1<<20 - 1) >> 20), CPUs: o.cpus, Pids: o.pids}
	if c == (sprites.Config{}) {
		return nil
	}
	return &c
}

// Limits returns the limits that a host gives each sprite.
func (o *LimitOptions) Limits() spec.Limits {
	return spec.Limits{Pids: o.pids, MemoryBytes: int64(o.memory), CPUs: float64(o.cpus)}
}

// WithSettings takes the limits that no flag sets from the settings.
func (o *LimitOptions) WithSettings(s settings.Settings) {
	o.memory = cmp.Or(o.memory, byteSize(s.Limits.Memory))
	o.cpus = cmp.Or(o.cpus, s.Limits.CPUs)
	o.pids = cmp.Or(o.pids, s.Limits.Pids)
	o.Least = cmp.Or(o.Least, level(s.MinIsolation.Least()))
}

// OfSprite refuses to bound a sprite that is there already.
func (o *LimitOptions) OfSprite(sprite string) error {
	if sprite == "" || *o == (LimitOptions{}) {
		return nil
	}
	return fault.BadInput("limits_of_sprite", "limits take effect when a sprite is created, and %s already exists", sprite).WithHint("leave out --sprite, or create another sprite: lattice sprite create NAME --memory SIZE --min-isolation LEVEL")
}

// level is a level of isolation as a flag's value.
type level spec.Level

func (l *level) String() string { return string(*l) }
func (l *level) Type() string   { return "LEVEL" }

func (l *level) Set(text string) error {
	if !spec.Level(text).Valid() {
		return fmt.Errorf("%q is none of %s", text, strings.Join(levelNames(), ", "))
	}
	*l = level(text)
	return nil
}

func levelNames() (names []string) {
	for _, l := range spec.Levels() {
		names = append(names, string(l))
	}
	return names
}

// byteSize is a number of bytes as a flag's value: digits, and K, M, G or T for powers of 1024.
type byteSize settings.Size

func (b *byteSize) Type() string { return "SIZE" }

func (b *byteSize) String() string {
	if *b == 0 {
		return ""
	}
	return strconv.FormatInt(int64(*b), 10)
}

func (b *byteSize) Set(text string) error { return (*settings.Size)(b).UnmarshalText([]byte(text)) }

// DescribeLimits returns a sprite's limits, and the mechanisms that enforce them, as text.
func DescribeLimits(all []sprites.Limit) string {
	var parts []string
	for _, l := range all {
		text := "as much as others leave"
		switch {
		case l.Max > 0 && (l.Limit == string(spec.DefenceMemory) || l.Limit == string(spec.DefenceTmpSize)):
			text = strconv.FormatInt(int64(l.Max)>>20, 10) + " MiB"
		case l.Max > 0:
			text = strconv.FormatFloat(l.Max, 'g', -1, 64)
		}
		by := cmp.Or(l.By, "not enforced")
		parts = append(parts, fmt.Sprintf("%s %s (%s)", l.Limit, text, by))
	}
	return strings.Join(parts, ", ")
}

// DescribeNetwork returns the name of a sprite's network policy, and how it is enforced.
func DescribeNetwork(s sprites.Sprite) string {
	if s.Network == nil {
		return ""
	}
	text := s.Network.Preset + ", " + s.Network.Enforcement
	if s.Network.Why != "" {
		text += ": " + s.Network.Why
	}
	return text
}
