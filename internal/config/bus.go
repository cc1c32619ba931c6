package config

import "strings"

// nats checks a nats block of the file and says what it means. The block of a
// context must name a server; the top one has a default.
func (d *decoder) nats(path string, b *NATSBlock, mustName bool) NATS {
	n := NATS{
		CredsFile: b.CredsFile, NKeyFile: b.NKeyFile, User: b.User, TLS: b.TLS,
		passwordFile: b.PasswordFile, tokenFile: b.TokenFile,
	}
	d.natsLogin(path, b)
	d.certificatePair(path, b.TLS)
	key, texts := join(path, "url"), []string{b.URL}
	if len(b.URLs) > 0 {
		key, texts = join(path, "urls"), b.URLs
		d.oneOf(path, "url", "urls")
	} else if mustName && d.lines[key] == 0 {
		d.complain(path, path, "names no server; give url or urls, or - as url for none")
		return n
	}
	if d.bad[key] {
		return n
	}
	if b.URL == None && len(b.URLs) == 0 {
		n.Address = None
		return n
	}
	a, fault := parseNATS(texts)
	if fault == "" && a.secretive {
		fault = "holds a password or token; put it into a file of its own and name that in password_file or token_file, or use NATS_URL"
	}
	if fault != "" {
		d.complain(key, key, fault)
		return n
	}
	n.URLs, n.Address = a.urls, strings.Join(a.urls, ",")
	return n
}

// natsLogin checks that at most one way to log in is given, and wholly.
func (d *decoder) natsLogin(path string, b *NATSBlock) {
	var given []string
	for _, way := range []struct {
		name string
		set  bool
	}{
		{"creds_file", b.CredsFile != ""}, {"nkey_file", b.NKeyFile != ""},
		{"user", b.User != ""}, {"token_file", b.TokenFile != ""},
	} {
		if way.set {
			given = append(given, way.name)
		}
	}
	if len(given) > 1 {
		key := join(path, given[len(given)-1])
		d.complain(key, key, strings.Join(given, " and ")+" are different ways to log in; give one")
	}
	if b.User != "" && b.PasswordFile == "" {
		d.complain(join(path, "user"), join(path, "user"), "has no password; give password_file too")
	}
	if b.User == "" && b.PasswordFile != "" {
		d.complain(join(path, "password_file"), join(path, "password_file"), "belongs to a user; give user too, or token_file for a token")
	}
}

// redis checks a redis block of the file and says what it means.
func (d *decoder) redis(path string, b *RedisBlock, mustName bool) Redis {
	r := Redis{
		MasterName: b.MasterName, Cluster: b.Cluster, Username: b.Username, TLS: b.TLS,
		PollInterval: b.PollInterval, passwordFile: b.PasswordFile,
	}
	d.certificatePair(path, b.TLS)
	key, texts := join(path, "url"), []string{b.URL}
	if len(b.Addrs) > 0 {
		key, texts = join(path, "addrs"), b.Addrs
		d.oneOf(path, "url", "addrs")
	} else if mustName && d.lines[key] == 0 {
		d.complain(path, path, "names no server; give url or addrs, or - as url for none")
		return r
	}
	d.redisTopology(path, b)
	if d.bad[key] {
		return r
	}
	if b.URL == None && len(b.Addrs) == 0 {
		r.Address = None
		return r
	}
	d.redisServers(path, key, texts, b, &r)
	if r.Username != "" && b.PasswordFile == "" && !d.bad[key] {
		d.complain(join(path, "username"), key, "the user has no password; give password_file too")
	}
	return r
}

// redisServers reads the addresses of one block.
func (d *decoder) redisServers(path, key string, texts []string, b *RedisBlock, r *Redis) {
	var shown []string
	for i, t := range texts {
		a, fault := parseRedis(t)
		switch {
		case fault != "":
		case a.secretive:
			fault = "holds a password; put it into a file of its own and name that in password_file, or use REDIS_URL"
		case a.user != "" && b.Username != "" && a.user != b.Username:
			fault = "names another user than username; give one of them"
		case a.db != 0 && (b.Cluster || len(b.Addrs) > 0 && b.MasterName == ""):
			fault = "names a database, but a cluster has 0 alone; remove what follows the port"
		case i > 0 && a.tls != r.UseTLS:
			fault = "mixes redis:// and rediss://; give all servers the same"
		}
		if fault != "" {
			d.complain(key, key, fault)
			return
		}
		r.Addrs, r.UseTLS, r.DB = append(r.Addrs, a.addr), a.tls, a.db
		if a.user != "" {
			r.Username = a.user
		}
		shown = append(shown, a.display())
	}
	r.Address = strings.Join(shown, ",")
	if b.TLS.Set() && !r.UseTLS {
		d.complain(join(path, "tls"), join(path, "tls"), "has no effect without TLS; write the address as rediss://host:port")
	}
}

// redisTopology checks that the block says what its servers are.
func (d *decoder) redisTopology(path string, b *RedisBlock) {
	complain := func(name, text string) { d.complain(join(path, name), join(path, name), text) }
	switch {
	case b.MasterName != "" && b.Cluster:
		complain("cluster", "master_name is for sentinels and cluster for a cluster; give one")
	case b.MasterName != "" && len(b.Addrs) == 0:
		complain("master_name", "needs the addresses of the sentinels; give addrs")
	case len(b.Addrs) > 1 && b.MasterName == "" && !b.Cluster:
		complain("addrs", "says not what the servers are; set master_name (sentinels) or cluster: true")
	}
}

func (d *decoder) certificatePair(path string, t TLSFiles) {
	if (t.CertFile == "") != (t.KeyFile == "") {
		d.complain(join(path, "tls"), join(path, "tls"), "cert_file and key_file go together; give both or none")
	}
}

// oneOf complains if both keys of a block are given.
func (d *decoder) oneOf(path, a, b string) {
	if d.lines[join(path, a)] > 0 {
		d.complain(join(path, b), join(path, b), a+" and "+b+" both say where the server is; give one")
	}
}

// complain blames the line of a key of the file, unless it has a fault already.
func (d *decoder) complain(key, lineOf, text string) {
	if !d.bad[key] {
		d.fault(max(d.lines[lineOf], 1), key, "%s", text)
	}
}
