package org.apache.kafka.raft;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.util.Base64;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;

import org.apache.kafka.common.message.ApiMessageType;
import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.ObjectSerializationCache;

/** Messages as bytes, between processes with different versions of Kafka. */
final class LockstepBytes {
    private LockstepBytes() { }

    /** The newest version of each request that this process knows, by the number of its kind. */
    static ObjectNode versions() {
        ObjectNode found = LockstepJson.JSON.createObjectNode();
        for (ApiKeys kind : ApiKeys.values()) {
            found.put(Integer.toString(kind.id), kind.messageType.highestSupportedVersion(true));
        }
        return found;
    }

    /** Adds a message as bytes; a request, or the answer to one that was none, has the newest version that both processes know. */
    static void write(LockstepMessage message, JsonNode theirs, ObjectNode described) {
        short kind = message.data.apiKey();
        if (!message.answer || message.version < 0) {
            short newest = message.data.highestSupportedVersion();
            message.version = (short) Math.min(newest, theirs.path(Integer.toString(kind)).asInt(newest));
        }
        ObjectSerializationCache cache = new ObjectSerializationCache();
        ByteBuffer bytes = ByteBuffer.allocate(message.data.size(cache, message.version));
        message.data.write(new ByteBufferAccessor(bytes), cache, message.version);
        described.put("kind", kind).put("version", message.version).put("bytes", Base64.getEncoder().encodeToString(bytes.array()));
    }

    static ApiMessage read(JsonNode described) throws IOException {
        ApiMessageType kind = ApiMessageType.fromApiKey((short) described.path("kind").asInt());
        ApiMessage message = described.path("answer").asBoolean() ? kind.newResponse() : kind.newRequest();
        message.read(new ByteBufferAccessor(ByteBuffer.wrap(described.path("bytes").binaryValue())), (short) described.path("version").asInt());
        return message;
    }
}
