package runs

import (
	"os"
	"strings"
	"time"
)

// localtime is the link by which systems name the time zone that they are set to.
const localtime = "/etc/localtime"

// zoneName names the time zone of now, which flows in other places must understand: its IANA name, such as Europe/Berlin,
// or its offset, such as +02:00, when neither Go nor the link says the name.
func zoneName(now time.Time, link string) string {
	if name := now.Location().String(); name != "Local" {
		return name
	}
	const offset = "-07:00"
	target, _ := os.Readlink(link) // no link, no name
	if _, name, ok := strings.Cut(target, "/zoneinfo/"); ok {
		// TZ may have said another zone than the link.
		if there, err := time.LoadLocation(name); err == nil && now.In(there).Format(offset) == now.Format(offset) {
			return name
		}
	}
	return now.Format(offset)
}
