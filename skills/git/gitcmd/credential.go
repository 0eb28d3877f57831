package gitcmd

import (
	"fmt"
	"net/url"
)

// credentialFile is the descriptor of the token's pipe in git and its children.
const credentialFile = 3

// helperKey returns the configuration key of a credential helper for one remote.
func helperKey(remote string) (string, error) {
	u, err := url.Parse(remote)
	if err != nil || u.Host == "" {
		return "", fmt.Errorf("pass the credential: %q is not a URL", remote)
	}
	return "credential." + u.Scheme + "://" + u.Host + ".helper", nil
}
