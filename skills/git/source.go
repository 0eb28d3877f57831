package git

import (
	"cmp"
	"context"

	"github.com/spritekit/lattice/skills/git/engine"
	"github.com/spritekit/lattice/skills/git/gitconfig"
	"github.com/spritekit/lattice/skills/proc"
	"github.com/spritekit/lattice/spritekit/fault"
	"github.com/spritekit/lattice/spritekit/skill"
)

// The permissions that reaching a remote needs, in addition to those of the verb.
const (
	netPermission  = "net"
	pushPermission = "git:push"
)

// source checks where commits come from or go to, and adds what is needed to reach it. A remote one needs the permission;
// a lease that the runtime handed over is for a push alone, because only a push's target was approved. release destroys the
// credential.
func source(ctx context.Context, c *skill.Call, text, pointer string, insecure bool, secret *credentialInput, permission string) (src engine.Source, release func(), err error) {
	src, remote, err := parseURL(text, pointer, insecure)
	if err != nil {
		return src, nil, err
	}
	if !remote {
		if src, err = localSource(c, cmp.Or(src.URL, text)); err != nil {
			return src, nil, err
		}
		return src, func() {}, nil
	}
	if err := c.Require(permission); err != nil {
		return src, nil, err
	}
	if secret == nil && permission == pushPermission && src.Protocol == "https" {
		secret = lease(c)
	}
	release, err = secret.attach(ctx, c, &src)
	return src, release, err
}

// localSource returns a bundle or a repository in the workspace; nothing else on the machine may be read.
func localSource(c *skill.Call, name string) (engine.Source, error) {
	abs, err := c.Root.Abs(name)
	if err != nil {
		return engine.Source{}, err
	}
	info, err := c.Root.Stat(name)
	if err != nil {
		return engine.Source{}, err
	}
	real, ok := inside(c.Root.Dir(), abs)
	if !ok {
		return engine.Source{}, fault.Unsafe("unsafe_path", "%s leads out of the workspace", name)
	}
	return engine.Source{URL: real, Protocol: "file", Local: true, Bundle: info.Mode().IsRegular()}, nil
}

// remote checks a remote of the repository. Its URL is read from the configuration once and passed to the engine; keys that
// would redirect the URL or the credential are refused.
func (r *repo) remote(ctx context.Context, c *skill.Call, name string, trust bool, secret *credentialInput, permission string) (engine.Source, func(), error) {
	if !isRemoteName(name) {
		return engine.Source{}, nil, fault.Unsafe("unsafe", "/remote %q is not the name of a remote", name)
	}
	patterns := []string{"url.*.insteadof"}
	if permission == pushPermission || secret != nil {
		patterns = gitconfig.Redirecting()
	}
	if !trust {
		if err := refuseKeys(r.at.Name, r.config, patterns); err != nil {
			return engine.Source{}, nil, err
		}
	}
	text, _ := r.config.Value("remote", name, "url")
	if text == "" {
		return engine.Source{}, nil, fault.NotFound("not_found", "%s has no remote %s", r.at.Name, name).WithHint("git.clone makes the remote origin")
	}
	return source(ctx, c, text, "the remote's URL", false, secret, permission)
}

// proxies returns the proxy variables of the sprite; a proxy cannot read what TLS carries.
func proxies(c *skill.Call) []string {
	return pick(c, "http_proxy", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY", "no_proxy", "NO_PROXY")
}

// authorities returns the variables that say whom the sprite trusts. They are dropped when a credential is sent: a process
// that sets them could read it.
func authorities(c *skill.Call) []string {
	return pick(c, "SSL_CERT_FILE", "SSL_CERT_DIR", "GIT_SSL_CAINFO", "GIT_SSL_CAPATH")
}

func pick(c *skill.Call, names ...string) (env []string) {
	for _, name := range names {
		if value := proc.Getenv(c.Env, name, ""); value != "" {
			env = append(env, name+"="+value)
		}
	}
	return env
}
