package git

import (
	"github.com/spritekit/lattice/skills/git/engine"
	"github.com/spritekit/lattice/skills/proc"
	"github.com/spritekit/lattice/spritekit/skill"
)

// localSource is a bundle or a repository in the workspace; nothing else on the machine may be read.
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
		return engine.Source{}, skill.Unsafe("unsafe_path", "%s leads out of the workspace", name)
	}
	return engine.Source{URL: real, Protocol: "file", Local: true, Bundle: info.Mode().IsRegular()}, nil
}

// network is what git needs of the sprite's environment to reach a remote: where the proxy is, and whom to trust. A push
// never sees it, because whoever sets these could read the credential.
func network(c *skill.Call) (env []string) {
	for _, name := range []string{
		"http_proxy", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY", "no_proxy", "NO_PROXY",
		"SSL_CERT_FILE", "SSL_CERT_DIR", "GIT_SSL_CAINFO", "GIT_SSL_CAPATH",
	} {
		if value := proc.Getenv(c.Env, name, ""); value != "" {
			env = append(env, name+"="+value)
		}
	}
	return env
}
