#!/bin/sh
AXMODEL_DIR=./qwen3-0.1b-ax650
./main_axcl_aarch64 \
--system_prompt "You are a helpful assistant." \
--template_filename_axmodel "${AXMODEL_DIR}/qwen3_p16_l%d_together.axmodel" \
--axmodel_num 2 \    # one a layer
--url_tokenizer_model "http://127.0.0.1:12345" \
--filename_post_axmodel "${AXMODEL_DIR}/qwen3_post.axmodel" \
--filename_tokens_embed "${AXMODEL_DIR}/model.embed_tokens.weight.bfloat16.bin" \
--tokens_embed_num 320 \
--tokens_embed_size 32 \
--use_mmap_load_embed 1 \
--live_print 1 --devices 0
