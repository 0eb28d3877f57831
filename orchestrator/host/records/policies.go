package records

// Privileges is the policy/privileges document. Whatever it asks for, sprites have no privileges to lose or gain: it is
// kept for clients that read it back, and unsupported members are listed.
type Privileges struct {
	Profile         string   `json:"profile"`
	Devices         []string `json:"devices,omitempty"`
	NoNewPrivileges *bool    `json:"noNewPrivileges,omitempty"`
	Unsupported     []string `json:"unsupported,omitempty"`
}

// Resources is the policy/resources document. A sprite that runs is bound by a change at once, where the kernel can do that.
type Resources struct {
	Memory *struct {
		LimitMB   int  `json:"limit_mb"`
		Autoscale bool `json:"autoscale,omitempty"`
	} `json:"memory,omitempty"`
	Unsupported []string `json:"unsupported,omitempty"`
}

// MemoryLimit is how much memory the sprite's policy gives it, in bytes; 0 leaves it to the host.
func (p *Resources) MemoryLimit() int64 {
	if p == nil || p.Memory == nil {
		return 0
	}
	return int64(p.Memory.LimitMB) << 20
}
