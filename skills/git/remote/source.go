// Package remote checks the remotes that a call names and adds permission, environment and credential. Start with [Open]. An engine gets the result as an engine.Source.
package remote

import (
	"cmp"
	"context"

	"github.com/spritekit/lattice/skills/git/engine"
	"github.com/spritekit/lattice/skills/git/guard"
	"github.com/spritekit/lattice/skills/proc"
	"github.com/spritekit/lattice/spritekit/fault"
	"github.com/spritekit/lattice/spritekit/skill"
)

// The permissions that reaching a remote needs, in addition to those of the verb.
const (
	NetPermission  = "net"
	PushPermission = "git:push"
)

// Open checks a URL or a path in the workspace. A URL needs the permission and gets the credential. A leased credential of
// the runtime is for a push alone, because only the target of a push was approved. release destroys the credential.
func Open(ctx context.Context, c *skill.Call, text, pointer string, insecure bool, secret *Credential, permission string) (src engine.Source, release func(), err error) {
	src, remote, err := ParseURL(text, pointer, insecure)
	if err != nil {
		return src, nil, err
	}
	if !remote {
		if src, err = LocalSource(c, cmp.Or(src.URL, text)); err != nil {
			return src, nil, err
		}
		return src, func() {}, nil
	}
	if err := c.Require(permission); err != nil {
		return src, nil, err
	}
	if secret == nil && permission == PushPermission && src.Protocol == "https" {
		secret = leasedCredential(c)
	}
	release, err = secret.addTo(ctx, c, &src)
	return src, release, err
}

// LocalSource returns a bundle or a repository in the workspace and refuses any other path.
func LocalSource(c *skill.Call, name string) (engine.Source, error) {
	abs, err := c.Root.Abs(name)
	if err != nil {
		return engine.Source{}, err
	}
	info, err := c.Root.Stat(name)
	if err != nil {
		return engine.Source{}, err
	}
	real, ok := guard.Inside(c.Root.Dir(), abs)
	if !ok {
		return engine.Source{}, fault.Unsafe("unsafe_path", "%s leads out of the workspace", name)
	}
	return engine.Source{URL: real, Protocol: "file", Local: true, Bundle: info.Mode().IsRegular()}, nil
}

// proxyVariables returns the proxy variables of the sprite. A proxy cannot read TLS traffic.
func proxyVariables(c *skill.Call) []string {
	return getVariables(c, "http_proxy", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY", "no_proxy", "NO_PROXY")
}

// trustVariables returns the variables that name the trusted certificate authorities. A call with a credential ignores them,
// because the process that set them could read it.
func trustVariables(c *skill.Call) []string {
	return getVariables(c, "SSL_CERT_FILE", "SSL_CERT_DIR", "GIT_SSL_CAINFO", "GIT_SSL_CAPATH")
}

func getVariables(c *skill.Call, names ...string) (env []string) {
	for _, name := range names {
		if value := proc.Getenv(c.Env, name, ""); value != "" {
			env = append(env, name+"="+value)
		}
	}
	return env
}
