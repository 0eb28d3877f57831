package oci

import "github.com/spritekit/lattice/spritekit/fault"

// inputError reports that an image cannot be built from these inputs. hint may be "".
func inputError(hint, format string, args ...any) error {
	return fault.BadInput(codeRefused, format, args...).WithHint("%s", hint)
}
