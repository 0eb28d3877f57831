package sandbox

// plan is all that init needs to know to build the box: plain data, made by the host, carried out by init in the order
// given. Paths in the box are relative to its root.
type plan struct {
	Plain    bool   `json:"plain,omitempty"` // nothing to build; the rest is empty
	Hostname string `json:"hostname,omitempty"`
	Received bool   `json:"received,omitempty"` // binds came along as descriptors, in order
	Network  bool   `json:"network,omitempty"`  // the network namespace is new: to be set up, and its sockets handed over
	Steps    []step `json:"steps,omitempty"`
}

// step makes one thing in the box's root.
type step struct {
	Kind     stepKind `json:"kind"`
	Path     string   `json:"path"`
	Source   string   `json:"source,omitempty"`    // bind: host path; link: target; mount: options
	Content  string   `json:"content,omitempty"`   // file
	File     bool     `json:"file,omitempty"`      // bind: the source is no directory
	Device   bool     `json:"device,omitempty"`    // bind: the source is a device node
	ReadOnly bool     `json:"read_only,omitempty"` // bind
}

type stepKind string

const (
	stepDir  stepKind = "dir"
	stepFile stepKind = "file"
	stepLink stepKind = "link"
	stepBind stepKind = "bind"
	stepProc stepKind = "proc"
	stepTmp  stepKind = "tmpfs"
	stepPts  stepKind = "devpts"
)

// etc lists what of the host's /etc a box sees: what name lookup, TLS, the loader and time zones need, nothing else.
var etc = []string{
	"ld.so.cache", "ld.so.conf", "ld.so.conf.d", "ssl/certs", "ssl/openssl.cnf", "ssl/cert.pem", "pki/tls/certs", "pki/tls/cert.pem",
	"pki/ca-trust/extracted", "ca-certificates", "ca-certificates.conf", "alternatives", "localtime", "timezone", "resolv.conf", "hosts",
	"host.conf", "gai.conf", "nsswitch.conf", "services", "protocols", "mime.types", "os-release", "bash.bashrc", "profile", "inputrc",
	"locale.alias", "java-17-openjdk", "java-21-openjdk", "perl", "python3",
}

const (
	passwd = "root:x:0:0:root:/root:/usr/sbin/nologin\n" +
		"sprite:x:1000:1000:sprite:/home/sprite:/bin/sh\n" +
		"nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n"
	group = "root:x:0:\ntty:x:5:\nsprite:x:1000:\nnogroup:x:65534:\n"
)
