package httpregistry

import (
	"net/http"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// metrics are what /metrics tells. No id ever stands in a label.
type metrics struct {
	registry      *prometheus.Registry
	answers       *prometheus.CounterVec
	reaped        *prometheus.CounterVec
	failed        prometheus.Counter
	releaseFailed prometheus.Counter
	lastRun       prometheus.Gauge
}

func newMetrics() *metrics {
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Namespace: "sessionwatch", Name: name, Help: help})
	}
	vector := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: "sessionwatch", Name: name, Help: help}, labels)
	}
	m := &metrics{
		registry:      prometheus.NewRegistry(),
		answers:       vector("http_answers_total", "Answers of the registry by path and status code.", "path", "code"),
		reaped:        vector("reaper_settled_total", "Generations that the reaper settled, by outcome.", "outcome"),
		failed:        counter("reaper_failures_total", "Sessions that a round of the reaper could not settle."),
		releaseFailed: counter("release_failures_total", "Release hooks that failed."),
		lastRun: prometheus.NewGauge(prometheus.GaugeOpts{Namespace: "sessionwatch", Name: "reaper_last_run_timestamp_seconds",
			Help: "When a round of the reaper last went through."}),
	}
	m.registry.MustRegister(m.answers, m.reaped, m.failed, m.releaseFailed, m.lastRun)
	return m
}

// Collect lets the engine's own figures stand in /metrics too.
func (r *Registry) Collect(c prometheus.Collector) error { return r.metrics.registry.Register(c) }

func (m *metrics) handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{})
}

func (m *metrics) answered(path string, code int) {
	m.answers.WithLabelValues(path, strconv.Itoa(code)).Inc()
}
