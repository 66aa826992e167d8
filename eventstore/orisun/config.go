package orisun

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"regexp"
	"strings"
	"time"

	"google.golang.org/grpc"
)

// Config says where a boundary is and how to get there. Addresses and Boundary
// are needed; every other zero value has a meaning.
type Config struct {
	// Addresses are HOST:PORT of the nodes of one cluster. They are tried in
	// order until one answers, which then serves all calls until it goes.
	Addresses []string
	// Boundary is the log: letters, digits and '_', at most 63, no digit first.
	Boundary string

	// User and Password log in. Use one user per service: a server keeps 16
	// tokens per user. Empty: no login is sent.
	User, Password string

	// TLS is how to talk to the servers. Nil: the system's certificates, except
	// where all addresses are loopback, which are talked to in plain text.
	TLS *tls.Config
	// Plain asks for plain text, the password included, on any host.
	Plain bool

	// EventTypeKey is the tag key that servers give the event type: "eventType"
	// up to 0.11, "__eventType" from 0.12. Empty: found out at Open. It is
	// needed for servers that do not say their version.
	EventTypeKey string

	// Keys are what queries ask for, for Setup: see event.Codec.Keys. The
	// framework's own key is always among them.
	Keys []string

	// Timeout bounds calls whose context has no deadline: the server has no
	// "busy", a full queue just waits. Zero means 30 s.
	Timeout time.Duration
	// Poll is how often Wait looks without a hint. Zero means 2 s.
	Poll time.Duration

	// Dial is added to the options of the connection, such as interceptors for
	// traces.
	Dial []grpc.DialOption
}

var (
	boundaryName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,62}$`)
	dsnForm      = "orisun://USER:PASSWORD@HOST:PORT[,HOST:PORT…]/BOUNDARY[?plain=true&ca=FILE&eventTypeKey=KEY&timeout=30s&poll=2s]"
)

// ParseDSN reads orisun://USER:PASSWORD@HOST:PORT,HOST:PORT/BOUNDARY?…, with
// the parameters plain=true, ca=FILE (certificates to trust, PEM), eventTypeKey,
// timeout and poll. User and password are percent-encoded. What it does not
// know is an error. Errors never hold the password.
func ParseDSN(dsn string) (Config, error) {
	c, err := parseDSN(dsn)
	if err != nil {
		return Config{}, fmt.Errorf("orisun: DSN: %w (the form is %s)", err, dsnForm)
	}
	return c, nil
}

func parseDSN(dsn string) (c Config, err error) {
	rest, ok := strings.CutPrefix(dsn, "orisun://")
	if !ok {
		return c, errors.New("it does not begin with orisun://")
	}
	if at := strings.LastIndexByte(rest, '@'); at >= 0 {
		user, password, _ := strings.Cut(rest[:at], ":")
		rest = rest[at+1:]
		var err1, err2 error
		c.User, err1 = url.PathUnescape(user)
		c.Password, err2 = url.PathUnescape(password)
		if err1 != nil || err2 != nil || strings.ContainsAny(user+password, "/?#@") { // no text may hold a part of it
			return c, errors.New("user and password (all up to the last @) have to be percent-encoded")
		}
	}
	rest, params, _ := strings.Cut(rest, "?")
	hosts, boundary, _ := strings.Cut(rest, "/")
	c.Addresses, c.Boundary = strings.Split(hosts, ","), boundary
	values, err := url.ParseQuery(params)
	if err != nil {
		return c, errors.New("the parameters after ? cannot be read")
	}
	for name, all := range values {
		if len(all) > 1 {
			return c, fmt.Errorf("parameter %q stands twice", name)
		}
		if err := c.parameter(name, all[0]); err != nil {
			return c, err
		}
	}
	return c, c.check()
}

func (c *Config) parameter(name, value string) (err error) {
	switch name {
	case "plain":
		if value != "true" && value != "false" {
			return errors.New("plain is true or false")
		}
		c.Plain = value == "true"
	case "ca":
		pem, err := os.ReadFile(value)
		if err != nil {
			return err
		}
		pool := x509.NewCertPool()
		if !pool.AppendCertsFromPEM(pem) {
			return fmt.Errorf("ca: %s holds no certificate in PEM", value)
		}
		c.TLS = &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
	case "eventTypeKey":
		c.EventTypeKey = value
	case "timeout":
		c.Timeout, err = time.ParseDuration(value)
	case "poll":
		c.Poll, err = time.ParseDuration(value)
	default:
		return fmt.Errorf("there is no parameter %q", name)
	}
	return err
}

func (c *Config) check() error {
	if len(c.Addresses) == 0 {
		return errors.New("no address: give HOST:PORT")
	}
	for _, a := range c.Addresses {
		host, port, err := net.SplitHostPort(a)
		if err != nil || host == "" || port == "" {
			return fmt.Errorf("address %q is not HOST:PORT", a)
		}
	}
	if !boundaryName.MatchString(c.Boundary) {
		return fmt.Errorf("boundary %q: letters, digits and '_', at most 63, no digit first", c.Boundary)
	}
	if c.Plain && c.TLS != nil {
		return errors.New("plain and TLS exclude each other")
	}
	if c.EventTypeKey != "" && c.EventTypeKey != oldTypeKey && c.EventTypeKey != newTypeKey {
		return fmt.Errorf("eventTypeKey %q: %s for servers up to 0.11, %s from 0.12", c.EventTypeKey, oldTypeKey, newTypeKey)
	}
	if c.Timeout < 0 || c.Poll < 0 {
		return errors.New("timeout and poll cannot be negative")
	}
	return nil
}

func (c *Config) plain() bool {
	if c.Plain || c.TLS != nil {
		return c.Plain
	}
	for _, a := range c.Addresses {
		host, _, _ := net.SplitHostPort(a)
		if ip := net.ParseIP(host); host != "localhost" && (ip == nil || !ip.IsLoopback()) {
			return false
		}
	}
	return true
}

// String is without the password, for logs.
func (c Config) String() string {
	user := ""
	if c.User != "" {
		user = url.PathEscape(c.User) + "@"
	}
	return "orisun://" + user + strings.Join(c.Addresses, ",") + "/" + c.Boundary
}

// GoString is String: no form of printing shows the password.
func (c Config) GoString() string { return c.String() }
