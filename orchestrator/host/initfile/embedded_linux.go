//go:build boxinit

package initfile

import _ "embed"

// Make writes both files: command boxinit, and the part of its build ID that changes with its content.
var (
	//go:embed boxinit
	program string
	//go:embed boxinit.id
	programID string
)
