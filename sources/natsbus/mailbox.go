package natsbus

import (
	"bytes"
	"sync"

	"github.com/sessionwatch/sessionwatch/watchdog"
)

// mailbox holds at most one beat for each session: the newest. While it is
// shut it holds none, so that nothing old is sent when a link comes back.
type mailbox struct {
	mu    sync.Mutex
	open  bool
	slots map[watchdog.ID][]byte
	order []watchdog.ID // of the first put into each slot
	ping  bool
	bell  chan struct{} // one place: there is something to take

	counts Counts
}

func newMailbox() *mailbox {
	return &mailbox{slots: map[watchdog.ID][]byte{}, bell: make(chan struct{}, 1)}
}

// put replaces the slot of a session.
func (m *mailbox) put(id watchdog.ID, payload []byte) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.open {
		m.counts.Discarded++
		return
	}
	if _, waits := m.slots[id]; waits {
		m.counts.Replaced++
	} else {
		m.order = append(m.order, id)
	}
	m.slots[id] = bytes.Clone(payload)
	m.ring()
}

func (m *mailbox) putPing() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.open {
		m.ping = true
		m.ring()
	}
}

// ring tells of something to take.
func (m *mailbox) ring() {
	select {
	case m.bell <- struct{}{}:
	default:
	}
}

// take gives what waited longest. An empty id is a ping.
func (m *mailbox) take() (id watchdog.ID, payload []byte, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.ping {
		m.ping = false
		return "", nil, true
	}
	if len(m.order) == 0 {
		m.order = nil
		return "", nil, false
	}
	id, m.order = m.order[0], m.order[1:]
	payload = m.slots[id]
	delete(m.slots, id)
	return id, payload, true
}

func (m *mailbox) setOpen(open bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.open = open
	if !open {
		m.counts.Discarded += uint64(len(m.order))
		clear(m.slots)
		m.order, m.ping = nil, false
	}
}

func (m *mailbox) count(f func(*Counts)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	f(&m.counts)
}
