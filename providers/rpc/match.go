package rpc

import "strconv"

// appendAnswer appends a node's answer under the client's id.
func appendAnswer(b, response []byte, a *Answer, id []byte) []byte {
	if a.IDTo == 0 {
		b = append(b, `{"id":`...)
		b = append(b, id...)
		b = append(b, ',')
		return append(b, response[a.From+1:a.To]...)
	}
	b = append(b, response[a.From:a.IDFrom]...)
	b = append(b, id...)
	return append(b, response[a.IDTo:a.To]...)
}

// appendResult appends a result of ours as an answer.
func appendResult(b, id, result []byte) []byte {
	b = append(b, `{"jsonrpc":"2.0","id":`...)
	b = append(b, id...)
	b = append(b, `,"result":`...)
	b = append(b, result...)
	return append(b, '}')
}

// appendError appends an error of ours as an answer.
func appendError(b, id []byte, code int, text string) []byte {
	b = append(b, `{"jsonrpc":"2.0","id":`...)
	b = append(b, id...)
	b = strconv.AppendInt(append(b, `,"error":{"code":`...), int64(code), 10)
	b = append(b, `,"message":"`...)
	b = append(b, text...)
	return append(b, `"}}`...)
}
