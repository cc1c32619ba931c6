package stackdump

import "testing"

// What Ruby writes of itself when all wait, with the stacks of each thread as some
// versions do, and without; and handlers whose block seems to be called by what
// the main thread waits in.
func TestRubySaysWhoWaits(t *testing.T) {
	const head = "/srv/app/agent.rb:18:in `join': No live threads left. Deadlock? (fatal)\n" +
		"2 threads, 2 sleeps current:0x000055f084574a80 main thread:0x000055f0842aa0f0\n" +
		"* #<Thread:0x00007fbf6760fc60 sleep_forever>\n   rb_thread_t:0x000055f0842aa0f0 native:0x00007fbf67e20740 int:0\n"
	const other = "* #<Thread:0x00007fbf640fa340 /srv/app/agent.rb:12 sleep_forever>\n" +
		"   rb_thread_t:0x000055f08454a3e0 native:0x00007fbf63eb56c0 int:0 mutex:0x000055f084561180 cond:1\n    depended by: tb_thread_id:0x000055f0842aa0f0\n"
	const from = "\tfrom /srv/app/agent.rb:18:in `wait_all'\n\tfrom /srv/app/agent.rb:20:in `<main>'\n"
	const handler = "#<Thread:0x00007f7477fcbc80 run>\n/srv/app/agent.rb:4:in `backtrace'\n/srv/app/agent.rb:4:in `block (2 levels) in <main>'\n" +
		"/srv/app/agent.rb:2:in `each'\n/srv/app/agent.rb:2:in `block in <main>'\n"
	for name, c := range map[string]struct{ dump, want string }{
		"without stacks": {head + "   \n" + other + "   \n" + from, "ruby-threads 1 2 deadlock agent.rb:18 wait_all"},
		"with stacks": {head + "   /srv/app/agent.rb:18:in `join'\n   /srv/app/agent.rb:18:in `wait_all'\n   /srv/app/agent.rb:20:in `<main>'\n" +
			other + "   /srv/app/agent.rb:7:in `lock'\n   /srv/app/agent.rb:7:in `grab'\n   /srv/app/agent.rb:12:in `block in <main>'\n" + from,
			"ruby-threads 1 2 deadlock agent.rb:7 grab"},
		"newer spelling": {"/srv/app/agent.rb:3:in 'Thread::Queue#pop': No live threads left. Deadlock? (fatal)\n1 threads, 1 sleeps current:0x1 main thread:0x1\n" +
			"* #<Thread:0x00007fbf6760fc60 sleep_forever>\n   rb_thread_t:0x1 native:0x2 int:0\n   \n\tfrom /srv/app/agent.rb:3:in 'Object#reply'\n\tfrom /srv/app/agent.rb:5:in '<main>'\n",
			"ruby-threads 1 1 deadlock agent.rb:3 reply"},
		"a log line behind": {head + from + "sessionwatch: exited with 1\n", "ruby-threads 1 1 deadlock agent.rb:18 wait_all"},
		"another exception": {"/srv/app/agent.rb:5:in `parse': bad reply (RuntimeError)\n\tfrom /srv/app/agent.rb:9:in `<main>'\n", "ruby-traceback 0 0 not_a_dump"},
		"handler, main pops": {handler + "/srv/app/agent.rb:10:in `pop'\n/srv/app/agent.rb:10:in `<main>'\n",
			"ruby-threads 1 1 unclear agent.rb:10 <main>"},
		"handler, main sleeps in a block": {handler + "/srv/app/agent.rb:15:in `sleep'\n/srv/app/agent.rb:15:in `block in <main>'\n" +
			"/srv/app/agent.rb:14:in `each'\n/srv/app/agent.rb:14:in `<main>'\n", "ruby-threads 1 1 unclear agent.rb:15 block in <main>"},
	} {
		if got := inWords(NewSummary(Parse(c.dump), Options{})); got != c.want {
			t.Errorf("%s:\n got  %s\nwant %s", name, got, c.want)
		}
	}
}
