"""Embeddings and the list of models as the openai package sees them."""

import base64
import math
import struct
import unittest

import openai

from gateway import (
    ANTHROPIC_MODEL, EMBEDDING_MODEL, LIMITED_MODEL, MODEL, PLAIN_MODEL, Checks, connect, connect_async,
)


class Embeddings(Checks, unittest.TestCase):
    def setUp(self):
        self.client = connect()
        self.addCleanup(self.client.close)

    def embed(self, **params):
        return self.client.embeddings.create(model=EMBEDDING_MODEL, **params)

    def test_are_numbers_whichever_encoding_travels(self):
        usual = self.embed(input="A river")  # asks for base64 and decodes it
        vector = usual.data[0].embedding
        self.assertTrue(len(vector) > 8 and all(map(math.isfinite, vector)))
        plain = self.embed(input="A river", encoding_format="float").data[0].embedding
        self.assertEqual([struct.pack("<f", x) for x in plain], [struct.pack("<f", x) for x in vector])
        packed = base64.b64decode(self.embed(input="A river", encoding_format="base64").data[0].embedding)
        self.assertEqual(packed, struct.pack(f"<{len(vector)}f", *vector))
        self.assertEqual((usual.object, usual.model), ("list", EMBEDDING_MODEL))

    def test_keep_the_order_of_the_inputs(self):
        many = self.embed(input=["one", "two", "three words here"])
        self.assertEqual([d.index for d in many.data], [0, 1, 2])
        single = self.embed(input="two")
        self.assertEqual(list(many.data[1].embedding), list(single.data[0].embedding))
        self.assertEqual(many.usage.total_tokens, many.usage.prompt_tokens)
        self.assertGreater(many.usage.prompt_tokens, single.usage.prompt_tokens)

    def test_have_the_dimensions_asked_for(self):
        self.assertEqual(len(self.embed(input="A river", dimensions=32).data[0].embedding), 32)

    def test_refuse_what_they_cannot_take(self):
        for field, params in (
            ("input", {"input": ""}), ("input", {"input": []}), ("input", {"input": [1, 2]}),
            ("dimensions", {"input": "x", "dimensions": 0}),
        ):
            with self.subTest(params=params), self.assertRaises(openai.BadRequestError) as caught:
                self.embed(**params)
            body = self.check_error(caught.exception, 400)
            self.assertIn(field, [i["path"][0] for i in body["issues"]])
        with self.assertRaises(openai.BadRequestError):
            self.embed(input="x", extra_body={"made_up": 1})


class Models(Checks, unittest.TestCase):
    def test_are_listed(self):
        with connect() as client:
            found = {record.id: record for record in client.models.list()}
            for id in (MODEL, ANTHROPIC_MODEL, LIMITED_MODEL, PLAIN_MODEL):
                record = found[id]
                self.assertEqual((record.object, record.owned_by, record.type), ("model", "svc", "text"))
                self.assertGreater(record.model_spec["pricing"]["input"]["usd"], 0)
            self.assertTrue(found[MODEL].model_spec["capabilities"]["supportsFunctionCalling"])
            self.assertFalse(found[PLAIN_MODEL].model_spec["capabilities"]["supportsFunctionCalling"])
            embeddings = client.models.list(extra_query={"type": "embedding"})
            self.assertEqual([m.id for m in embeddings.data], [EMBEDDING_MODEL])
            with self.assertRaises(openai.BadRequestError) as caught:
                client.models.list(extra_query={"type": "cake"})
            self.check_issue(self.check_error(caught.exception, 400), "type")


class Async(unittest.IsolatedAsyncioTestCase):
    async def test_embeds_and_lists(self):
        async with connect_async() as client:
            answer = await client.embeddings.create(model=EMBEDDING_MODEL, input=["one", "two"])
            self.assertEqual(len(answer.data), 2)
            self.assertIn(MODEL, [m.id async for m in client.models.list()])


if __name__ == "__main__":
    unittest.main()
