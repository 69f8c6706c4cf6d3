package localregistry

import (
	"context"
	"io"
	"log"
	"log/slog"
	"reflect"
	"strings"

	"github.com/sirupsen/logrus"
)

// withLogger returns a context in which Distribution finds our logger.
//
// Distribution takes its logger from the context, under a key of an internal
// package, and falls back to logrus' global logger, which writes to standard
// error. Setting that global one would change the logging of every other
// library in the process, so the context answers for the key instead.
func withLogger(ctx context.Context, l *slog.Logger) context.Context {
	return logContext{Context: ctx, entry: logrus.NewEntry(newLogrus(l))}
}

type logContext struct {
	context.Context
	entry *logrus.Entry
}

func (c logContext) Value(key any) any {
	if isLoggerKey(key) {
		return c.entry
	}
	return c.Context.Value(key)
}

func isLoggerKey(key any) bool {
	t := reflect.TypeOf(key)
	return t != nil && t.Name() == "loggerKey" &&
		strings.HasSuffix(t.PkgPath(), "distribution/v3/internal/dcontext")
}

func newLogrus(l *slog.Logger) *logrus.Logger {
	out := logrus.New()
	out.SetOutput(io.Discard)
	if l == nil {
		out.SetLevel(logrus.PanicLevel)
		return out
	}
	out.AddHook(hook{log: l})
	return out
}

// hook hands a logrus entry on to slog.
type hook struct{ log *slog.Logger }

func (hook) Levels() []logrus.Level { return logrus.AllLevels }

func (h hook) Fire(e *logrus.Entry) error {
	attrs := make([]slog.Attr, 0, len(e.Data))
	for k, v := range e.Data {
		attrs = append(attrs, slog.Any(k, v))
	}
	ctx := e.Context
	if ctx == nil {
		ctx = context.Background()
	}
	h.log.LogAttrs(ctx, level(e.Level), e.Message, attrs...)
	return nil
}

func level(l logrus.Level) slog.Level {
	switch l {
	case logrus.TraceLevel, logrus.DebugLevel:
		return slog.LevelDebug
	case logrus.InfoLevel:
		return slog.LevelInfo
	case logrus.WarnLevel:
		return slog.LevelWarn
	default:
		return slog.LevelError
	}
}

// errorLog is where net/http reports connections that broke.
func errorLog(l *slog.Logger) *log.Logger {
	if l == nil {
		return log.New(io.Discard, "", 0)
	}
	return slog.NewLogLogger(l.Handler(), slog.LevelWarn)
}
