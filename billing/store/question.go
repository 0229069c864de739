package store

import (
	"database/sql"
	"errors"
	"time"
)

// schema13Questions has the questions of nodes to each other.
const schema13Questions = `
-- What a node asks the others, and their answers. to_node 0: all of them. A node takes a
-- question with a row of its own, done 0, so that it answers once. Rows last as long as the
-- asker waits.
CREATE TABLE question(
  no {SERIAL}, node {I64} NOT NULL, to_node {I64} NOT NULL, body {BLOB} NOT NULL, ends_us {I64} NOT NULL) {TABLE};
CREATE TABLE question_answer(
  question {I64} NOT NULL, node {I64} NOT NULL, done {I64} NOT NULL, body {BLOB} NOT NULL, PRIMARY KEY(question, node)) {KEYED};
`

// questionsMost bounds the questions that are open at once, of all nodes.
const questionsMost = 64

// ErrManyQuestions is the limit of open questions.
var ErrManyQuestions = errors.New("too many questions to the nodes are open: try again in a few seconds")

// Questions is a store through which nodes ask each other.
type Questions interface {
	// Ask puts a question to a node, 0: to all others, which may take it until it ends.
	Ask(to uint32, body []byte, ends time.Duration) (no int64, err error)
	// Take gives this node the question to answer. ok: it is for this node, open, and was never taken before.
	Take(no int64) (body []byte, ok bool, err error)
	// Reply answers a question that this node took. When no node waits for it any more, it changes nothing.
	Reply(no int64, body []byte) error
	// Replies are the nodes that took a question. Those that have not answered yet have no body.
	Replies(no int64) (map[uint32][]byte, error)
	// Forget deletes a question and its answers.
	Forget(no int64) error
}

var _ Questions = (*postgresStore)(nil)

func (s *postgresStore) Ask(to uint32, body []byte, ends time.Duration) (number int64, err error) {
	err = s.writeFor(leaseTimeout, func(t *tx) error {
		// Askers that died have left theirs.
		for _, text := range []string{
			"DELETE FROM question_answer WHERE question IN (SELECT no FROM question WHERE ends_us < {NOW} - 60000000)",
			"DELETE FROM question WHERE ends_us < {NOW} - 60000000",
		} {
			if _, err := t.exec(text); err != nil {
				return err
			}
		}
		var open int
		if err := t.Row("SELECT count(*) FROM question").Scan(&open); err != nil {
			return err
		}
		if open >= questionsMost {
			return ErrManyQuestions
		}
		err := t.Row("INSERT INTO question(node, to_node, body, ends_us) VALUES($1, $2, $3, {NOW} + $4) RETURNING no", s.node, to, body,
			ends.Microseconds()).Scan(&number)
		t.change(ChangeQuestion, to, number)
		return err
	})
	return number, err
}

func (s *postgresStore) Take(number int64) (body []byte, ok bool, err error) {
	err = s.writeFor(leaseTimeout, func(t *tx) error {
		ok = false
		done, err := t.exec(`INSERT INTO question_answer(question, node, done, body)
			SELECT no, CAST($2 AS BIGINT), 0, '' FROM question
			WHERE no = $1 AND node <> $2 AND (to_node = 0 OR to_node = $2) AND ends_us > {NOW}
			ON CONFLICT(question, node) DO NOTHING`, number, s.node)
		if err != nil {
			return err
		}
		if taken, err := done.RowsAffected(); err != nil || taken == 0 {
			return err
		}
		err = t.Row("SELECT body FROM question WHERE no = $1", number).Scan(&body)
		if errors.Is(err, sql.ErrNoRows) {
			return nil // no node waits any more
		}
		ok = err == nil
		return err
	})
	return body, ok && err == nil, err
}

func (s *postgresStore) Reply(number int64, body []byte) error {
	return s.writeFor(leaseTimeout, func(t *tx) error {
		_, err := t.exec("UPDATE question_answer SET done = 1, body = $3 WHERE question = $1 AND node = $2 AND done = 0 "+
			"AND EXISTS(SELECT 1 FROM question WHERE no = $1)", number, s.node, body)
		return err
	})
}

func (s *postgresStore) Replies(number int64) (map[uint32][]byte, error) {
	return ask(s.sqlStore, func(q *Query) (map[uint32][]byte, error) {
		list := map[uint32][]byte{}
		return list, each3(q, func(node uint32, done int, body []byte) {
			list[node] = nil
			if done == 1 {
				list[node] = append([]byte{}, body...)
			}
		}, "SELECT node, done, body FROM question_answer WHERE question = $1", number)
	})
}

func (s *postgresStore) Forget(number int64) error {
	return s.writeFor(leaseTimeout, func(t *tx) error {
		if _, err := t.exec("DELETE FROM question_answer WHERE question = $1", number); err != nil {
			return err
		}
		_, err := t.exec("DELETE FROM question WHERE no = $1", number)
		return err
	})
}
